//! Runs a daemon under a mixed load for half an hour, while sources, rules, interfaces and sizes change all the time.
//! Memory must stay flat, every packet must be counted, and nothing may be left. An argument gives other minutes.
#![expect(clippy::expect_used, reason = "a check fails by panicking")]

mod churn;
mod reading;

use std::{
    env,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox};

use self::{churn::Churn, reading::Reading};

/// Minutes of a whole run.
const MINUTES: u64 = 30;
/// Time between two changes.
const STEP: Duration = Duration::from_secs(3);
/// The most growth of the daemon's memory from the first half of the run to the second, in kB.
const GROWTH: u64 = 2_000;
/// Packets per second of each flood.
const PACE: u64 = 20_000;

fn main() -> Result<ExitCode> {
    let minutes = env::args().nth(1).map_or(Ok(MINUTES), |minutes| minutes.parse()).context("expected minutes")?;
    let sandbox = Sandbox::new();
    sandbox.leave_pins();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let mut churn = Churn::new(&sandbox, &ratelimit, &folder);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    anyhow::ensure!(daemon.line().contains(": in force"), "the daemon did not start");
    // The peer's system greets its neighbours in the first seconds.
    thread::sleep(Duration::from_secs(15));
    let counted = reading::counted(&ratelimit);
    let floods = [
        Flood::of(Frame::udp([10, 9, 0, 1], 9)).sources(5_000).in_random_order(),
        Flood::of(Frame::syn([10, 10, 0, 1], 80)).endless(0),
    ];
    let running: Vec<_> = floods.iter().map(|flood| flood.clone().pace(PACE).start(&sandbox)).collect();
    let (begin, mut readings) = (Instant::now(), vec![Reading::take(&sandbox, &ratelimit, &daemon)]);
    println!("{}\n{}", Reading::HEAD, readings[0].row(0));
    for minute in 1..=minutes {
        while begin.elapsed() < Duration::from_mins(minute) {
            churn.change(&mut daemon);
            thread::sleep(STEP);
        }
        // The daemon's second thread ends ten seconds after its last work.
        thread::sleep(Duration::from_secs(12));
        let reading = Reading::take(&sandbox, &ratelimit, &daemon);
        println!("{}", reading.row(minute));
        readings.push(reading);
    }
    let sent: u64 = running.into_iter().map(ratelimit_tests::Running::stop).sum();
    let counted = reading::counted(&ratelimit) - counted;
    println!("\n{} changes; {sent} packets sent, {counted} counted as passed or dropped", churn.count());
    let is_flat = is_flat(&readings);
    daemon.end();
    ratelimit.ok("detach --all");
    let is_empty = sandbox.pins().is_empty();
    println!(
        "memory and descriptors {}, pins {}",
        if is_flat { "flat" } else { "GROW" },
        if is_empty { "gone" } else { "LEFT" }
    );
    Ok(if is_flat && is_empty && sent == counted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns whether memory does not grow, and the daemon opens and starts nothing more. The allocator keeps what the last
/// load of a program needed, or returns it. So readings go up and down, and the halves of the run are compared.
fn is_flat(readings: &[Reading]) -> bool {
    let (first, second) = readings.split_at(readings.len().div_ceil(2));
    let kb = |half: &[Reading]| half.iter().map(|reading| reading.resident_kb).collect::<Vec<_>>();
    let (first, second) = (kb(first), kb(second));
    let grows = |first: Option<&u64>, second: Option<&u64>| second > first.map(|kb| kb + GROWTH).as_ref();
    let is_more = grows(first.iter().min(), second.iter().min()) || grows(first.iter().max(), second.iter().max());
    !is_more && readings.iter().all(|reading| reading.things() == readings[0].things())
}
