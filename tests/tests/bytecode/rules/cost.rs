//! Costs: packets of a service that count as several.

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
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::costs::{self, Cost},
};
use ratelimit_tests::{Bytecode, Frame};

use crate::{
    front::{Front, with_and_without_cells},
    meters::{ADDRESS, HOUR, MINUTE, frame, limit, passed, schedules::check},
};

const COST: u32 = 10;

/// Loads a program in which a TCP SYN costs as much as ten packets.
fn load(front: Front, policy: Policy) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { costs: true, services: true, ..crate::meters::settings(front) });
    costs::set(&mut bytecode.tables, Cost { service: Service::TcpSyn, cost: COST, origin: COMMAND }).unwrap();
    bytecode.set("default", policy);
    bytecode.set_time(HOUR);
    bytecode
}

fn syn() -> Vec<u8> {
    Frame::syn(ADDRESS, 443).bytes()
}

fn a_syn_of_cost_ten_takes_ten_tokens_and_its_refusal_does_not_block_cheaper_packets(front: Front) {
    for algorithm in Algorithm::ALL {
        let bytecode = load(front, limit(algorithm, 25, MINUTE));
        if algorithm == Algorithm::SlidingLog {
            // A sliding log counts packets, whatever their cost.
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

/// A refused packet of cost one says nothing about a packet of cost ten, which has to wait longer.
fn after_a_refusal_a_packet_of_cost_one_passes_before_one_of_cost_ten(front: Front) {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut bytecode = load(front, limit(algorithm, 20, MINUTE));
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 30), 20);
        for tokens in 1..=10 {
            // A nanosecond earlier there is one token less.
            bytecode.set_time(HOUR + tokens * 3_000_000_000 - 1);
            assert_eq!(passed(&bytecode, &syn(), 2), 0, "{tokens} tokens");
        }
        bytecode.set_time(HOUR + 10 * 3_000_000_000);
        assert_eq!([passed(&bytecode, &syn(), 2), passed(&bytecode, &frame(ADDRESS), 2)], [1, 0]);
    }
}

/// A cached refusal for bytes depends on the length alone. The longer wait for packet tokens must not affect other
/// packets.
fn a_byte_refusal_of_an_expensive_packet_does_not_delay_packets_of_cost_one(front: Front) {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let packets = Some(Rate { amount: 20, period: HOUR });
        let bytes = Some(Rate { amount: 60_000, period: MINUTE });
        let limit = Limit { packets, bytes, burst: Some(20), algorithm, ..Limit::default() };
        let mut bytecode = load(front, limit.policy().unwrap());
        let long = Frame::udp(ADDRESS, 9).length(1_514).bytes();
        // Twenty frames of 1,514 bytes are the burst of both limits. In the end five packet tokens are left, and no
        // bytes for such a frame.
        let jumbo = Frame::udp(ADDRESS, 9).length(16_000).bytes();
        let dear = Frame::syn(ADDRESS, 443).length(1_514).bytes();
        assert_eq!(passed(&bytecode, &jumbo, 1), 1);
        assert_eq!(passed(&bytecode, &long, 9), 9);
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 5), 5);
        // Its packet tokens would take a quarter of an hour.
        assert_eq!(passed(&bytecode, &dear, 1), 0);
        // Within two seconds the bucket regains more bytes than this frame needs.
        assert_eq!(bytecode.reason(&dear), Reason::OverBytes, "{}", algorithm.name());
        bytecode.set_time(HOUR + 2_000_000_000);
        assert_eq!(bytecode.reason(&long), Reason::WithinLimit, "{}", algorithm.name());
    }
}

fn with_costs_every_token_bucket_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::TokenBucket, 0, COST);
}

fn with_costs_every_leaky_bucket_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::LeakyBucket, 0, COST);
}

fn with_costs_every_fixed_window_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::FixedWindow, 0, COST);
}

fn with_costs_every_sliding_window_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::SlidingWindow, 0, COST);
}

fn with_costs_every_sliding_log_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::SlidingLog, 0, COST);
}

with_and_without_cells!(
    a_syn_of_cost_ten_takes_ten_tokens_and_its_refusal_does_not_block_cheaper_packets,
    after_a_refusal_a_packet_of_cost_one_passes_before_one_of_cost_ten,
    a_byte_refusal_of_an_expensive_packet_does_not_delay_packets_of_cost_one,
    with_costs_every_token_bucket_verdict_matches_the_model,
    with_costs_every_leaky_bucket_verdict_matches_the_model,
    with_costs_every_fixed_window_verdict_matches_the_model,
    with_costs_every_sliding_window_verdict_matches_the_model,
    with_costs_every_sliding_log_verdict_matches_the_model,
);
