//! How much memory this process may use.

use std::{fs, path::Path};

/// Where control groups of version 2 are mounted.
const GROUPS: &str = "/sys/fs/cgroup";
/// Their limits: the hard one, and the one above which the kernel takes memory back.
const LIMITS: [&str; 2] = ["memory.max", "memory.high"];

/// Returns the bytes of memory of this machine, or the limit of a control group that this process is in. The kernel
/// counts maps as memory of the process that creates them. None if the machine does not tell.
#[must_use]
pub fn most() -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use std::{env, process};

    use super::*;

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
