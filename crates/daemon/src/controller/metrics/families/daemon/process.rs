//! The process of the daemon, with the names that exporters commonly use.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

use super::super::page::Family;

/// Returns the families. `started` is the start of the daemon. Values that the system does not report are omitted.
pub(in crate::controller::metrics) fn families(started: SystemTime) -> Vec<Family> {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let mut families = vec![Family::counter("process_cpu_seconds_total", "CPU time of the daemon in seconds.").of(cpu)];
    if let Ok(started) = started.duration_since(UNIX_EPOCH) {
        let help = "Start of the daemon, in seconds since 1970.";
        families.push(Family::gauge("process_start_time_seconds", help).of(started.as_secs_f64()));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |key: &str| {
        let kilobytes = status.lines().find_map(|line| line.strip_prefix(key))?.trim().strip_suffix(" kB")?;
        Some(kilobytes.parse::<u64>().ok()? * 1_024)
    };
    if let Some(resident) = bytes("VmRSS:") {
        families.push(Family::gauge("process_resident_memory_bytes", "Resident memory of the daemon.").of(resident));
    }
    if let Some(size) = bytes("VmSize:") {
        families.push(Family::gauge("process_virtual_memory_bytes", "Virtual memory of the daemon.").of(size));
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is the folder that is read.
        let open = open.count().saturating_sub(1) as u64;
        families.push(Family::gauge("process_open_fds", "Open files of the daemon.").of(open));
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        families.push(Family::gauge("process_max_fds", "Largest number of open files of the daemon.").of(most));
    }
    families
}
