//! Counters of each source, exact or sampled.

use ratelimit_common::{
    buckets::bucket::Bucket,
    cells::refused_sample::RATE,
    identity::source::Source,
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    reason::Reason,
};
use ratelimit_dataplane::{program::loader::Settings, readings::tracked};
use ratelimit_tests::{Bytecode, Frame, Order, Sources, Walker, per_second};

use crate::cells::{hourly, stay_on_one_cpu};

const ADDRESS: [u8; 4] = [192, 0, 2, 1];
const PACKETS: u64 = 100_000;

/// Returns the only tracked source, if there is one.
fn listed(bytecode: &Bytecode) -> Option<Bucket> {
    let tracked = tracked::all(&bytecode.tables).unwrap();
    assert!(tracked.len() <= 1, "{tracked:?}");
    tracked.first().map(|(source, bucket)| {
        assert_eq!(*source, Source::v4(ADDRESS));
        *bucket
    })
}

/// Sends all packets in batches, at half of a limit of a thousand per second.
fn send_all(bytecode: &mut Bytecode, frame: &[u8], at_a_time: u32) {
    bytecode.set_time(SECOND);
    let mut clock = bytecode.clock();
    for _ in 0..PACKETS / u64::from(at_a_time) {
        clock.advance(u64::from(at_a_time) * SECOND / 500);
        bytecode.repeat(frame, at_a_time);
    }
    assert_eq!(bytecode.count(Reason::WithinLimit), PACKETS);
}

fn both(bytes_per_second: u64) -> Policy {
    let rate = |amount| Some(Rate { amount, period: SECOND });
    Limit { packets: rate(1_000), bytes: rate(bytes_per_second), burst: Some(1_000), ..Limit::default() }
        .policy()
        .unwrap()
}

#[test]
fn a_busy_source_within_its_limit_is_listed_with_an_estimate_within_30_percent() {
    let frame = Frame::udp(ADDRESS, 9).length(100).bytes();
    // In the last case a packet costs the same share of both limits.
    for (policy, what) in [(per_second(1_000, 1_000), "packets"), (both(700_000), "both"), (both(100_000), "alike")] {
        for (tick, at_a_time) in [(0, 1), (0, 50), (4_000_000, 1), (4_000_000, 50)] {
            let mut bytecode = Bytecode::with(Settings { injected_tick: tick, ..crate::settings() });
            bytecode.set("default", policy);
            send_all(&mut bytecode, &frame, at_a_time);
            let bucket = listed(&bytecode).unwrap_or_else(|| panic!("{what} by {at_a_time}: it is not listed"));
            let off = bucket.passed().abs_diff(PACKETS) as f64 / PACKETS as f64;
            assert!(off < 0.3, "{what} by {at_a_time}, tick {tick}: {} packets", bucket.passed());
            assert_eq!(bucket.passed_bytes, 100 * bucket.passed());
            assert_eq!(bucket.over_limit(), 0);
        }
    }
}

#[test]
fn without_samples_a_source_within_its_limit_is_not_listed() {
    let mut bytecode = Bytecode::with(Settings { sample: false, ..crate::settings() });
    bytecode.set("default", per_second(1_000, 1_000));
    send_all(&mut bytecode, &Frame::udp(ADDRESS, 9).bytes(), 50);
    assert_eq!(listed(&bytecode), None);
}

/// Samples use a sixteenth of the budget. A flood from forged sources leaves the rest to sources that need a bucket.
#[test]
fn samples_use_at_most_a_sixteenth_of_the_admission_budget() {
    crate::cells::stay_on_one_cpu();
    let (budget, seconds) = (160, 20);
    let mut bytecode = Bytecode::with(Settings { admissions: budget, ..crate::settings() });
    bytecode.set("default", per_second(1_000, 1_000));
    bytecode.set_time(SECOND);
    let (mut clock, mut walker) = (bytecode.clock(), ratelimit_tests::Walker::new(9, 0));
    walker.lead_to(bytecode.program());
    for _ in 0..seconds * 10 {
        clock.advance(SECOND / 10);
        walker.run(ratelimit_tests::Sources::Endless, ratelimit_tests::Order::InTurn, 2_000);
    }
    let made = crate::cells::of_cpus(&bytecode, |cpu| cpu.admitted);
    let part = budget / 16;
    // There are twice as many samples as the budget allows. A second's share may be used at once.
    assert!((part * (seconds - 1)..=part * (seconds + 1)).contains(&made), "{made} buckets");
}

/// The cell's debt shows how many packets it admitted before the source had a bucket, minus the part that drained.
#[test]
fn packets_before_the_first_refusal_are_counted_exactly() {
    let mut bytecode = Bytecode::with(crate::settings());
    bytecode.set("default", crate::cells::hourly(15));
    bytecode.set_time(SECOND);
    let frame = Frame::udp(ADDRESS, 9).bytes();
    let mut clock = bytecode.clock();
    for _ in 0..20 {
        bytecode.send(&frame);
        clock.advance(SECOND);
    }
    let bucket = listed(&bytecode).unwrap();
    assert_eq!((bucket.passed(), bucket.passed_bytes), (15, 15 * frame.len() as u64));
}

#[test]
fn drops_of_an_offender_are_counted_exactly() {
    let mut bytecode = Bytecode::with(crate::settings());
    bytecode.set("default", per_second(10, 10));
    bytecode.set_time(SECOND);
    let frame = Frame::udp(ADDRESS, 9).bytes();
    let mut clock = bytecode.clock();
    for _ in 0..1_000 {
        clock.advance(SECOND / 100);
        bytecode.repeat(&frame, 97);
    }
    let dropped = bytecode.count(Reason::OverPackets);
    assert!(dropped > 96_000);
    let bucket = listed(&bytecode).unwrap();
    assert_eq!((bucket.over_limit(), bucket.dropped().bytes), (dropped, dropped * frame.len() as u64));
    assert!(!bucket.is_sampled());
}

/// During a flood, one of 64 refused packets is counted for all. No rhythm of a source meets or misses these. The square
/// of the error is 64 for each packet, and a deviation of 4.5 times the error is one of 150,000.
#[test]
fn drops_of_a_flood_are_estimated_whatever_the_rhythm_of_its_sources() {
    stay_on_one_cpu();
    for sources in [1u32, 2, 5, 64, 100, 128] {
        let settings = Settings { admissions: 1_000_000, cells: 1 << 17, ..crate::settings() };
        let mut bytecode = Bytecode::with(settings);
        bytecode.set("default", hourly(1));
        bytecode.set_time(SECOND);
        let mut walker = Walker::new(9, 0);
        walker.lead_to(bytecode.program());
        // The table of sources has a power of two of entries.
        let of_each = 4_096 * 64 / sources.next_power_of_two();
        walker.run(Sources::Count(sources), Order::InTurn, of_each * sources.next_power_of_two());
        let tracked = tracked::all(&bytecode.tables).unwrap();
        assert_eq!(tracked.len(), sources as usize);
        let (dropped, mut sum) = (bytecode.count(Reason::OverPackets), 0);
        for (source, bucket) in &tracked {
            let share = dropped / u64::from(sources);
            assert!(bucket.is_sampled(), "{source:?}");
            if sources.is_power_of_two() {
                let wrong = bucket.over_limit().abs_diff(share);
                assert!(
                    wrong * wrong < 20 * RATE * share,
                    "{source:?} of {sources}: {} of {share}",
                    bucket.over_limit()
                );
            }
            sum += bucket.over_limit();
        }
        assert!(sum.abs_diff(dropped) <= dropped / 20, "{sources} sources: {sum} of {dropped}");
    }
}
