//! The host: its release, this process's privileges, and its clocks.

use std::{fs, os::unix::fs::MetadataExt as _, time::Duration};

use rustix::{system::uname, thread::CapabilitySet};

use crate::{Error, error::at};

/// Checks this process's privileges.
///
/// # Errors
///
/// [`Error::Privilege`] with the first missing capability.
pub fn check() -> Result<(), Error> {
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

/// Returns the CPU time that this thread has used, also in the kernel.
#[must_use]
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the number of this process's network namespace.
pub fn network_namespace() -> Result<u64, Error> {
    let path = "/proc/thread-self/ns/net";
    Ok(fs::metadata(path).map_err(at(path))?.ino())
}

/// Ports from which the kernel chooses the local one of a connection, unless it is told otherwise.
const CHOSEN_PORTS: [u32; 2] = [32_768, 60_999];

/// Returns the first and the last port from which the kernel chooses the local one of a connection, in this thread's
/// network namespace; its default if it does not say.
pub fn chosen_ports() -> [u32; 2] {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    text.ok().and_then(|text| ports(&text)).unwrap_or(CHOSEN_PORTS)
}

fn ports(text: &str) -> Option<[u32; 2]> {
    let (first, last) = text.trim().split_once(char::is_whitespace)?;
    Some([first.parse().ok()?, last.trim().parse().ok()?])
}

/// Returns `net.ipv4.tcp_syncookies` of this thread's network namespace. Both families obey it.
pub fn syn_cookies() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_syncookies");
    text.ok().map(|text| text.trim().to_owned())
}

/// Returns `net.netfilter.nf_conntrack_tcp_loose` of this thread's network namespace. None without connection tracking.
pub fn loose_tracking() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_tcp_loose");
    text.ok().map(|text| text.trim().to_owned())
}

/// Returns the nanoseconds that the host was suspended since it started, at least 1. The monotonic clock stands still
/// meanwhile, the boot clock does not.
#[must_use]
pub fn suspended() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let boot = u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0);
    boot.saturating_sub(now()).max(1)
}

/// Returns nanoseconds since 1970.
#[must_use]
pub fn wall() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::ports;

    #[test]
    fn a_range_of_ports_reads_as_the_kernel_writes_it() {
        assert_eq!(ports("32768\t60999\n"), Some([32_768, 60_999]));
        assert_eq!(ports("1024 65535"), Some([1_024, 65_535]));
        assert_eq!(ports("32768"), None);
    }
}
