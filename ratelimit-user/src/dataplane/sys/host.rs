//! The host: its kernel, this process's privileges, and its clocks.

use rustix::{system::uname, thread::CapabilitySet};

use crate::dataplane::Error;

/// The first kernel with frames of several buffers for XDP.
pub const FRAGS_SINCE: (u32, u32) = (5, 18);

/// The oldest kernel that is supported. Compare-and-exchange in programs came with 5.12; 5.15 is the oldest long-term
/// kernel that has it.
const FLOOR: (u32, u32) = (5, 15);

/// Checks the kernel and this process's privileges.
///
/// # Errors
///
/// [`Error::Kernel`] if the kernel is too old, [`Error::Privilege`] with the first missing capability.
pub fn check() -> Result<(), Error> {
    let release = release();
    if !is_supported(&release) {
        return Err(Error::Kernel { found: release });
    }
    match missing_privileges()?.first() {
        Some(name) => Err(Error::Privilege(name)),
        None => Ok(()),
    }
}

/// Returns the running kernel's release.
#[must_use]
pub fn release() -> String {
    uname().release().to_string_lossy().into_owned()
}

/// Returns whether the program runs on a kernel of this release.
#[must_use]
pub fn is_supported(release: &str) -> bool {
    is_at_least(release, FLOOR)
}

/// Returns the capabilities that this process lacks.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel does not say.
pub fn missing_privileges() -> Result<Vec<&'static str>, Error> {
    let held = rustix::thread::capabilities(None)
        .map_err(|error| Error::Bpf { what: "cannot read this process's capabilities", detail: error.to_string() })?
        .effective;
    // CAP_SYS_ADMIN includes the two that Linux 5.8 split off.
    let needed = [
        ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN),
        ("CAP_BPF", CapabilitySet::BPF | CapabilitySet::SYS_ADMIN),
        ("CAP_PERFMON", CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN),
    ];
    Ok(needed.into_iter().filter(|(_, any)| !held.intersects(*any)).map(|(name, _)| name).collect())
}

/// Returns the time that the program sees: nanoseconds of the monotonic clock.
#[must_use]
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Returns nanoseconds since 1970.
#[must_use]
pub fn wall() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Returns whether the running kernel has at least this version.
#[must_use]
pub fn kernel_is_at_least(version: (u32, u32)) -> bool {
    is_at_least(&release(), version)
}

/// Returns whether a release has at least this version. A release that cannot be parsed counts as new enough.
#[must_use]
pub fn is_at_least(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= version,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{FLOOR, is_at_least};

    #[test]
    fn releases() {
        for release in ["5.15.0", "5.15", "6.1.0-rc1", "6.18.44-fc", "10.0"] {
            assert!(is_at_least(release, FLOOR), "{release}");
        }
        for release in ["5.14.21", "5.4.0-generic", "4.19.0", "2.6.78"] {
            assert!(!is_at_least(release, FLOOR), "{release}");
        }
    }
}
