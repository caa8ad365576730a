//! What must stay the same.

use std::fs;

use ratelimit_tests::{Daemon, Ratelimit, Sandbox};

/// What the daemon and the instance use.
pub(crate) struct Reading {
    pub(crate) resident_kb: u64,
    map_bytes: u64,
    descriptors: usize,
    threads: usize,
    pins: usize,
}

impl Reading {
    /// The head of a table.
    pub(crate) const HEAD: &str =
        "| minute | daemon, resident kB | maps, MB | descriptors | threads | pins |\n|---|---|---|---|---|---|";

    /// Reads all of it.
    pub(crate) fn take(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, daemon: &Daemon) -> Self {
        let process = format!("/proc/{}", daemon.process.child.id());
        let status = fs::read_to_string(format!("{process}/status")).expect("the daemon has ended");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("no VmRSS");
        let count = |folder: &str| fs::read_dir(format!("{process}/{folder}")).expect("the daemon has ended").count();
        Self {
            resident_kb: resident.trim().trim_end_matches(" kB").parse().expect("not a number"),
            map_bytes: ratelimit.json("status")["memory"]["bytes"].as_u64().expect("no memory"),
            descriptors: count("fd"),
            threads: count("task"),
            pins: sandbox.pins().len(),
        }
    }

    /// Returns what must be equal in all readings.
    pub(crate) fn things(&self) -> [usize; 3] {
        [self.descriptors, self.threads, self.pins]
    }

    /// Returns it as a row of the table.
    pub(crate) fn row(&self, minute: u64) -> String {
        let Self { resident_kb, map_bytes, descriptors, threads, pins } = self;
        let megabytes = map_bytes / 1_000_000;
        format!("| {minute} | {resident_kb} | {megabytes} | {descriptors} | {threads} | {pins} |")
    }
}

/// Returns the number of packets that the program has counted.
pub(crate) fn counted(ratelimit: &Ratelimit<'_>) -> u64 {
    let status = ratelimit.json("status");
    let reasons = status["reasons"].as_object().expect("no reasons");
    reasons.values().map(|reason| reason["packets"].as_u64().expect("no packets")).sum()
}
