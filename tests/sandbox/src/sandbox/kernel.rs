//! Features of the running kernel and its CPUs, for tests that not every machine can run.

use std::thread;

use rustix::{
    process::getpid,
    system::uname,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

/// Returns the number of CPUs of the machine. The process may be kept on some of them.
#[must_use]
pub fn online_cpus() -> usize {
    // SAFETY: the call only reads a number of the system.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1)
}

/// Returns whether this process may use two CPUs at once.
///
/// A test that needs them returns early otherwise, and prints a line that starts with `skipped: `.
#[must_use]
pub fn has_two_cpus() -> bool {
    thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1)
}

/// Keeps this thread on one of the CPUs that this process may use, counted from 0. With fewer CPUs, counting begins again.
///
/// # Panics
///
/// If the kernel refuses.
pub fn stay_on_cpu(index: usize) {
    let usable = sched_getaffinity(Some(getpid())).expect("cannot read the CPUs of this process");
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| usable.is_set(cpu)).collect();
    let mut chosen = CpuSet::new();
    chosen.set(cpus[index % cpus.len()]);
    sched_setaffinity(None, &chosen).expect("cannot move to this CPU");
}

/// Returns whether the running kernel is `major.minor` or newer.
///
/// A test of a newer feature returns early otherwise, and prints a line that starts with `skipped: `, which
/// `cargo xtask vm` counts.
///
/// # Panics
///
/// If the kernel's release does not start with two numbers.
#[must_use]
pub fn kernel_at_least(major: u32, minor: u32) -> bool {
    let release = uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(found_major)), Some(Ok(found_minor))) => (found_major, found_minor) >= (major, minor),
        _ => panic!("the kernel's release is {release}"),
    }
}
