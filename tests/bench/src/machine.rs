//! The machine that measures.

use std::{fmt, fs, thread};

use anyhow::Result;
use serde::Serialize;

/// What a reader must know of a machine to compare figures.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    /// Model of its processor.
    pub(crate) machine: String,
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
}

impl Machine {
    /// Reads it from the kernel, on a thread that may still use all CPUs.
    pub(crate) fn this() -> Result<Self> {
        let text = fs::read_to_string("/proc/cpuinfo")?;
        let machine = text.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown CPU");
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
        Ok(Self { machine: machine.to_owned(), cpus: thread::available_parallelism()?.get(), kernel })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, cpus, kernel } = self;
        write!(f, "kernel {kernel}, {machine}, {cpus} CPUs")
    }
}
