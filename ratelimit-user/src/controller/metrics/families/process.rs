//! The daemon's own process, under the names that every exporter uses.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

use super::Family;

/// `started` is when the daemon was. What the system does not tell is left out.
pub(in super::super) fn families(started: SystemTime) -> Vec<Family> {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let mut families = vec![Family::counter("process_cpu_seconds_total", "CPU time of the daemon.").of(cpu)];
    if let Ok(started) = started.duration_since(UNIX_EPOCH) {
        let help = "When the daemon was started, in seconds since 1970.";
        families.push(Family::gauge("process_start_time_seconds", help).of(started.as_secs_f64()));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |key: &str| {
        let kilobytes = status.lines().find_map(|line| line.strip_prefix(key))?.trim().strip_suffix(" kB")?;
        Some(kilobytes.parse::<u64>().ok()? * 1_024)
    };
    if let Some(resident) = bytes("VmRSS:") {
        families.push(
            Family::gauge("process_resident_memory_bytes", "Memory of the daemon that is resident.").of(resident),
        );
    }
    if let Some(size) = bytes("VmSize:") {
        families
            .push(Family::gauge("process_virtual_memory_bytes", "Addresses of the daemon that are in use.").of(size));
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is that folder.
        let open = open.count().saturating_sub(1) as u64;
        families.push(Family::gauge("process_open_fds", "Files that the daemon has open.").of(open));
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        families.push(Family::gauge("process_max_fds", "Most files that it can have open.").of(most));
    }
    families
}
