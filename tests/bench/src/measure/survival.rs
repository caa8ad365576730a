//! Established sources beside a flood in which every packet has another source.

use std::{collections::HashSet, net::Ipv4Addr, thread, time::Instant};

use anyhow::{Result, ensure};
use ratelimit_common::{identity::source::Source, reason::Reason};
use ratelimit_dataplane::{program::loader::Settings, readings::tracked};
use ratelimit_tests::{Bytecode, Flood, Frame, Sandbox, VICTIM_LINK, per_second};

use crate::{configurations::PORT, measure::Effort, results::Survival};

/// The established sources: their number, first address, and total rate.
const ESTABLISHED: u32 = 10_000;
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 9, 64, 0);
const PACE: u64 = 20_000;
/// Seconds until they are known. They send twice the rate of unknown sources, so they wait for each other.
const BEFORE: u64 = 10;
/// Rate of unknown sources.
const UNKNOWN: u64 = 10_000;

/// Floods the established sources, without and with a limit of unknown sources.
pub(crate) fn run(effort: &Effort) -> Result<Vec<Survival>> {
    [0, UNKNOWN].into_iter().map(|unknown| measure(unknown, effort.flood_seconds)).collect()
}

fn measure(unknown: u64, seconds: u64) -> Result<Survival> {
    eprintln!("{ESTABLISHED} established sources beside a flood, unknown sources {unknown}/s");
    let sandbox = Sandbox::new();
    let mut bytecode = Bytecode::with_kernel_clock_and(Settings { unknown, ..Settings::default() });
    bytecode.set("default", per_second(1_000, 1_000));
    bytecode.attach_dropping(&sandbox, VICTIM_LINK);
    let established = Flood::of(Frame::udp(FIRST, PORT)).sources(ESTABLISHED).pace(PACE).on_cpu(0);
    established.send(&sandbox, PACE * BEFORE);
    let buckets = || -> Result<HashSet<Source>> {
        let known = |number: u32| Source::v4((u32::from(FIRST) + number).to_be_bytes());
        let known: HashSet<Source> = (0..ESTABLISHED).map(known).collect();
        Ok(tracked::all(&bytecode.tables)?
            .into_iter()
            .map(|(source, _)| source)
            .filter(|source| known.contains(source))
            .collect())
    };
    let unknown_passed = || bytecode.cpus().iter().map(|cpu| cpu.unknown_passed).sum::<u64>();
    let (before, counts, unknown_before) = (buckets()?, bytecode.counts(), unknown_passed());
    let last = thread::available_parallelism()?.get() - 1;
    let begin = Instant::now();
    let flood = Flood::of(Frame::udp([192, 0, 2, 1], PORT)).endless(0).on_cpu(last).start(&sandbox);
    established.send(&sandbox, PACE * seconds);
    let sent = flood.stop();
    let elapsed = begin.elapsed().as_secs_f64();
    let sent_by_established = PACE * seconds;
    let after = bytecode.counts();
    let came = |is_meant: fn(Reason) -> bool| {
        let pairs = counts.iter().zip(&after).filter(|(before, _)| is_meant(before.0));
        pairs.map(|(before, after)| after.1.packets - before.1.packets).sum::<u64>()
    };
    let (passed, dropped) = (came(Reason::passes), came(|reason| !reason.passes()));
    ensure!(passed + dropped == sent + sent_by_established, "{passed} passed, {dropped} did not, {sent} were sent");
    // Every known source is an established one. Without a limit of unknown sources none exceeds a limit, so every
    // dropped packet counts as one of an unknown source.
    let flood_passed = if unknown == 0 { sent - dropped } else { unknown_passed() - unknown_before };
    let buckets_lost = before.difference(&buckets()?).count();
    Ok(Survival {
        unknown,
        seconds: elapsed,
        flood: sent,
        flood_passed,
        established: sent_by_established,
        established_lost: (sent_by_established + flood_passed).saturating_sub(passed),
        buckets: before.len(),
        buckets_lost,
    })
}
