//! Shadow: packets over a limit pass and are counted as would-be drops.

use ratelimit_common::{
    identity::source::Source,
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate},
        policy::{DROP, Policy, SHADOW},
    },
    reason::Reason,
};
use ratelimit_dataplane::{program::loader::Settings, readings::tracked};
use ratelimit_tests::{Bytecode, Frame, Verdict};

use crate::{
    front::{Front, with_and_without_cells},
    meters::{ADDRESS, HOUR, frame, limit, packets, passed},
};

fn load(settings: Settings, policy: Policy) -> Bytecode {
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(HOUR);
    bytecode.set("default", policy);
    bytecode
}

fn with_actions(front: Front) -> Settings {
    Settings { actions: true, ..crate::meters::settings(front) }
}

/// Returns packets that passed in shadow with this reason.
fn in_shadow(bytecode: &Bytecode, reason: Reason) -> u64 {
    bytecode.tables.shadow_counts().unwrap()[reason as usize].1.packets
}

/// Returns the packets of the source as commands list them: those that were dropped, and those that passed in shadow.
fn over_limit(bytecode: &Bytecode) -> [u64; 2] {
    let tracked = tracked::all(&bytecode.tables).unwrap();
    let (_, bucket) = tracked.iter().find(|(source, _)| *source == Source::v4(ADDRESS)).unwrap();
    [bucket.dropped().packets, bucket.would_drop().packets]
}

fn in_shadow_every_packet_passes_and_is_counted_under_its_drop_reason(front: Front) {
    for algorithm in Algorithm::ALL {
        let bytecode = load(with_actions(front), Policy { over_limit: SHADOW, ..limit(algorithm, 5, HOUR) });
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 12), 12, "{}", algorithm.name());
        assert_eq!(bytecode.count(Reason::WithinLimit), 5, "{}", algorithm.name());
        assert_eq!(bytecode.count(Reason::OverPackets), 0, "{}", algorithm.name());
        assert_eq!(in_shadow(&bytecode, Reason::OverPackets), 7, "{}", algorithm.name());
        assert_eq!(over_limit(&bytecode), [0, 7], "{}", algorithm.name());
        let bytes: u64 = bytecode.tables.shadow_counts().unwrap().iter().map(|(_, count)| count.bytes).sum();
        assert_eq!(bytes, 7 * 60, "{}", algorithm.name());
    }
}

fn in_shadow_packets_over_a_byte_limit_count_as_over_bytes(front: Front) {
    for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| *algorithm != Algorithm::SlidingLog) {
        let bytes = Some(Rate { amount: 36_000, period: HOUR });
        let burst = algorithm.is_bucket().then_some(100);
        let limit = Limit { bytes, burst, algorithm, ..Limit::default() }.policy().unwrap();
        let bytecode = load(with_actions(front), Policy { over_limit: SHADOW, ..limit });
        let long = Frame::udp(ADDRESS, 9).length(1_500).bytes();
        // A bucket holds a hundred frames of 1,514 bytes. A window holds the amount of an hour.
        let within = if algorithm.is_bucket() { 100 * 1_514 / 1_500 } else { 24 };
        assert_eq!(passed(&bytecode, &long, 200), 200, "{}", algorithm.name());
        assert_eq!(bytecode.count(Reason::WithinLimit), within, "{}", algorithm.name());
        assert_eq!(in_shadow(&bytecode, Reason::OverBytes), 200 - within, "{}", algorithm.name());
    }
}

fn switching_between_shadow_and_enforcement_lets_no_count_go_back(front: Front) {
    for algorithm in Algorithm::ALL {
        let [shadow, enforced] = [SHADOW, DROP].map(|over_limit| Policy { over_limit, ..limit(algorithm, 5, HOUR) });
        let mut bytecode = load(with_actions(front), shadow);
        let name = algorithm.name();
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 12), 12, "{name}");
        for round in 1..=3 {
            bytecode.set("default", enforced);
            assert_eq!(passed(&bytecode, &frame(ADDRESS), 3), 0, "{name}");
            assert_eq!(over_limit(&bytecode), [3 * round, 7 + 4 * (round - 1)], "{name}, round {round}");
            bytecode.set("default", shadow);
            assert_eq!(passed(&bytecode, &frame(ADDRESS), 4), 4, "{name}");
            assert_eq!(over_limit(&bytecode), [3 * round, 7 + 4 * round], "{name}, round {round}");
        }
        assert_eq!(bytecode.count(Reason::OverPackets), 9, "{name}");
        assert_eq!(in_shadow(&bytecode, Reason::OverPackets), 7 + 12, "{name}");
    }
}

fn in_instance_shadow_nothing_is_dropped(front: Front) {
    let settings = Settings { shadow: true, ..crate::meters::settings(front) };
    let mut bytecode = load(settings, limit(Algorithm::TokenBucket, 2, HOUR));
    bytecode.set("198.51.100.0/24", Policy::DENIED);
    let malformed = {
        let mut frame = frame(ADDRESS);
        // The header length is four words; the minimum is five.
        frame[14] = 0x44;
        frame
    };
    let truncated = frame(ADDRESS)[..30].to_vec();
    let tagged = Frame::udp(ADDRESS, 9).tag(1).tag(2).tag(3).bytes();
    for (frame, reason) in [
        (frame([198, 51, 100, 1]), Reason::Denied),
        (malformed, Reason::Malformed),
        (truncated, Reason::Truncated),
        (tagged, Reason::TooManyTags),
    ] {
        for times in 1..=3 {
            assert_eq!(bytecode.send(&frame), Verdict::Pass, "{reason:?}");
            assert_eq!(in_shadow(&bytecode, reason), times, "{reason:?}");
        }
        assert_eq!(bytecode.count(reason), 0, "{reason:?}");
    }
    assert_eq!(passed(&bytecode, &frame(ADDRESS), 10), 10);
    assert_eq!(in_shadow(&bytecode, Reason::OverPackets), 8);
    assert!(bytecode.counts().iter().all(|(reason, count)| reason.passes() || count.packets == 0));
}

fn in_instance_shadow_every_algorithm_counts_would_be_drops(front: Front) {
    for algorithm in Algorithm::ALL {
        let policy = packets(algorithm, 5, HOUR).policy().unwrap();
        let bytecode = load(Settings { shadow: true, ..crate::meters::settings(front) }, policy);
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 12), 12, "{}", algorithm.name());
        assert_eq!(in_shadow(&bytecode, Reason::OverPackets), 7, "{}", algorithm.name());
    }
}

with_and_without_cells!(
    in_shadow_every_packet_passes_and_is_counted_under_its_drop_reason,
    in_shadow_packets_over_a_byte_limit_count_as_over_bytes,
    switching_between_shadow_and_enforcement_lets_no_count_go_back,
    in_instance_shadow_nothing_is_dropped,
    in_instance_shadow_every_algorithm_counts_would_be_drops,
);
