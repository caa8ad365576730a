//! What a packet costs, and how many of them pass through a veth pair. Figures compare within one run only.

mod live;
mod packet;

use std::{fs, io};

use anyhow::Result;

fn main() -> Result<()> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown CPU");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("kernel {}, {model}, {} CPUs\n", kernel.trim(), std::thread::available_parallelism()?);
    packet::run()?;
    println!();
    live::run();
    Ok(())
}

/// The value in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Moves this thread to the first CPU, so that all samples are taken on the same one.
fn pin() -> io::Result<()> {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(0);
    Ok(rustix::thread::sched_setaffinity(None, &cpus)?)
}
