//! Packets of a service that count as several.

use ratelimit::dataplane::{
    program::loader::Settings,
    rules::costs::{self, Cost},
};
use ratelimit_common::{
    identity::service::Service,
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate},
        policy::Policy,
    },
    reason::Reason,
    rules::rule::COMMAND,
};
use ratelimit_tests::{Bytecode, Frame};

use super::{ADDRESS, HOUR, MINUTE, frame, limit, passed, schedules::check};

const COST: u32 = 10;

/// A new connection costs as much as ten packets.
fn load(policy: Policy) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { costs: true, services: true, ..super::settings() });
    costs::set(&mut bytecode.tables, Cost { service: Service::TcpSyn, cost: COST, origin: COMMAND }).unwrap();
    bytecode.set("default", policy);
    bytecode.set_time(HOUR);
    bytecode
}

fn syn() -> Vec<u8> {
    Frame::syn(ADDRESS, 443).bytes()
}

#[test]
fn a_syn_of_cost_ten_takes_ten_tokens_and_one_that_is_refused_blocks_no_cheaper_packet() {
    for algorithm in Algorithm::ALL {
        let bytecode = load(limit(algorithm, 25, MINUTE));
        if algorithm == Algorithm::SlidingLog {
            // It counts packets, whatever they cost.
            assert_eq!(passed(&bytecode, &syn(), 40), 25);
            continue;
        }
        assert_eq!(passed(&bytecode, &syn(), 4), 2, "{}", algorithm.name());
        assert_eq!(bytecode.reason(&syn()), Reason::OverPackets, "{}", algorithm.name());
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 3), 3, "{}", algorithm.name());
        assert_eq!(bytecode.reason(&syn()), Reason::OverPackets, "{}", algorithm.name());
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 5), 2, "{}", algorithm.name());
        assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::OverPackets, "{}", algorithm.name());
    }
}

/// The other way round: a cheap packet that is refused says nothing about when a dear one fits, and the dear one comes back later.
#[test]
fn a_cheap_packet_fits_again_before_a_dear_one() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut bytecode = load(limit(algorithm, 20, MINUTE));
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 30), 20);
        for tokens in 1..=10 {
            // A nanosecond early there is one token less.
            bytecode.set_time(HOUR + tokens * 3_000_000_000 - 1);
            assert_eq!(passed(&bytecode, &syn(), 2), 0, "{tokens} tokens");
        }
        bytecode.set_time(HOUR + 10 * 3_000_000_000);
        assert_eq!([passed(&bytecode, &syn(), 2), passed(&bytecode, &frame(ADDRESS), 2)], [1, 0]);
    }
}

/// Refused for its bytes, a dear packet is noted with its length. That it would wait for its tokens longer is no matter of others.
#[test]
fn a_dear_packet_refused_for_its_bytes_blocks_no_cheap_one_when_there_is_room_for_bytes_again() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let packets = Some(Rate { amount: 20, period: HOUR });
        let bytes = Some(Rate { amount: 60_000, period: MINUTE });
        let limit = Limit { packets, bytes, burst: Some(20), algorithm, ..Limit::default() };
        let mut bytecode = load(limit.policy().unwrap());
        let long = Frame::udp(ADDRESS, 9).length(1_514).bytes();
        // Twenty of 1,514 bytes are the burst of either. In the end there are five tokens left of the packets, and no room for such a frame.
        let jumbo = Frame::udp(ADDRESS, 9).length(16_000).bytes();
        let dear = Frame::syn(ADDRESS, 443).length(1_514).bytes();
        assert_eq!(passed(&bytecode, &jumbo, 1), 1);
        assert_eq!(passed(&bytecode, &long, 9), 9);
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 5), 5);
        // It would wait for a quarter of an hour for its tokens.
        assert_eq!(passed(&bytecode, &dear, 1), 0);
        // What a bucket gets back within two seconds is more than this frame needs.
        assert_eq!(bytecode.reason(&dear), Reason::OverBytes, "{}", algorithm.name());
        bytecode.set_time(HOUR + 2_000_000_000);
        assert_eq!(bytecode.reason(&long), Reason::WithinLimit, "{}", algorithm.name());
    }
}

#[test]
fn with_costs_every_verdict_of_a_token_bucket_is_its_definitions() {
    check(Algorithm::TokenBucket, 0, COST);
}

#[test]
fn with_costs_every_verdict_of_a_leaky_bucket_is_its_definitions() {
    check(Algorithm::LeakyBucket, 0, COST);
}

#[test]
fn with_costs_every_verdict_of_a_fixed_window_is_its_definitions() {
    check(Algorithm::FixedWindow, 0, COST);
}

#[test]
fn with_costs_every_verdict_of_a_sliding_window_is_its_definitions() {
    check(Algorithm::SlidingWindow, 0, COST);
}

#[test]
fn with_costs_every_verdict_of_a_sliding_log_is_its_definitions() {
    check(Algorithm::SlidingLog, 0, COST);
}
