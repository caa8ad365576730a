//! The host: its release, this process's privileges, the memory that it may use, and its clocks.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

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

/// Where control groups of version 2 are mounted.
const GROUPS: &str = "/sys/fs/cgroup";
/// Their limits: the hard one, and the one above which the kernel takes memory back.
const LIMITS: [&str; 2] = ["memory.max", "memory.high"];

/// Returns the bytes of memory of this machine, or the limit of a control group that this process is in. The kernel
/// counts maps as memory of the process that creates them. None if the machine does not tell.
#[must_use]
pub fn memory() -> Option<u64> {
    let machine = total(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    Some(limit(Path::new(GROUPS), group).map_or(machine, |limit| limit.min(machine)))
}

/// Returns the bytes of memory that `/proc/meminfo` tells.
fn total(text: &str) -> Option<u64> {
    let number = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB"));
    number?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// Returns the lowest limit of a control group and of those around it.
fn limit(groups: &Path, group: &str) -> Option<u64> {
    let own = groups.join(group);
    let around = own.ancestors().take_while(|folder| folder.starts_with(groups));
    let files = around.flat_map(|folder| LIMITS.map(|name| folder.join(name)));
    files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
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
    use std::{env, process};

    use super::*;

    #[test]
    fn a_range_of_ports_reads_as_the_kernel_writes_it() {
        assert_eq!(ports("32768\t60999\n"), Some([32_768, 60_999]));
        assert_eq!(ports("1024 65535"), Some([1_024, 65_535]));
        assert_eq!(ports("32768"), None);
    }

    #[test]
    fn the_memory_of_the_machine_is_read_in_bytes() {
        assert_eq!(total("MemTotal:        8130476 kB\nMemFree:          204892 kB\n"), Some(8_325_607_424));
        for text in ["", "MemFree: 5 kB\n", "MemTotal: many kB\n", "MemTotal: 18446744073709551615 kB\n"] {
            assert_eq!(total(text), None, "{text}");
        }
    }

    #[test]
    fn the_lowest_limit_of_all_groups_counts() {
        let groups = env::temp_dir().join(format!("ratelimit-groups-{}", process::id()));
        let own = groups.join("system.slice/ratelimit.service");
        fs::create_dir_all(&own).unwrap();
        let of = |group| limit(&groups, group);
        let set = |folder: &Path, text: &str| fs::write(folder.join("memory.max"), text).unwrap();
        assert_eq!(of("system.slice/ratelimit.service"), None);
        set(&own, "max\n");
        assert_eq!(of("system.slice/ratelimit.service"), None);
        set(&groups.join("system.slice"), "3000000000\n");
        assert_eq!(of("system.slice/ratelimit.service"), Some(3_000_000_000));
        fs::write(own.join("memory.high"), "2500000000\n").unwrap();
        assert_eq!(of("system.slice/ratelimit.service"), Some(2_500_000_000));
        set(&own, "2000000000\n");
        assert_eq!(of("system.slice/ratelimit.service"), Some(2_000_000_000));
        assert_eq!(of("system.slice"), Some(3_000_000_000));
        // A group that is mounted elsewhere, as another one sees it.
        assert_eq!((of(""), of("../other.slice")), (None, None));
        fs::remove_dir_all(&groups).unwrap();
    }
}
