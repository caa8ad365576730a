//! How this host calls itself when it tells others.

use std::{fs, path::Path};

use ratelimit_fleet::kept::bans;

/// Files with the number of this machine. The second one changes with each boot.
const MACHINE: [&str; 2] = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"];

/// Returns the name of this host with a number of its machine and its instance. Each instance speaks for itself.
pub(super) fn own_name(name: &str, pins: &Path) -> String {
    let machine = MACHINE.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    bans::host(name, &format!("{} {}", machine.trim(), pins.display()))
}
