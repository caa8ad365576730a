//! Replies to generated frames: they match etherparse, or the frame stays unchanged.

use std::cell::Cell;

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Verdict, generate::Generator, reply::expected};

use super::{exchange, load, plenty};

const CASES: u32 = 20_000;

/// Shortest frame that the kernel runs.
const SHORTEST: usize = 14;

/// Every source has its own bucket, so the admission budget does not matter.
fn without_cells() -> Settings {
    Settings { cells: 0, ..plenty() }
}

/// Runs a frame and returns whether the program replied, or an error if it differs from the expected result.
fn compare(bytecode: &Bytecode, frame: &[u8]) -> Result<bool, String> {
    let (verdict, out) = exchange(bytecode, frame);
    let expected = expected(frame);
    let is_right = match &expected {
        Some(expected) => verdict == Verdict::Reply && out == *expected,
        None => verdict != Verdict::Reply && out == frame,
    };
    if is_right {
        return Ok(expected.is_some());
    }
    Err(format!("{frame:02x?} became {verdict:?} {out:02x?}, and should have become {expected:02x?}"))
}

fn bytes(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), count)
}

/// Generates mostly unicast addresses.
fn link_address() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => bytes(6).prop_map(|mut address| { address[0] &= 0xfe; address }),
        1 => bytes(6),
        1 => Just(vec![0; 6]),
    ]
}

fn tags() -> impl Strategy<Value = Vec<u8>> {
    let tag = (prop::sample::select(vec![[0x81, 0x00], [0x88, 0xa8]]), bytes(2));
    prop::collection::vec(tag.prop_map(|(kind, tag)| [&kind[..], &tag].concat()), 0..=2).prop_map(|tags| tags.concat())
}

fn ipv4_address() -> impl Strategy<Value = Vec<u8>> {
    let special = [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 251], [240, 0, 0, 1], [255; 4]];
    prop_oneof![8 => bytes(4), 1 => prop::sample::select(special.map(Vec::from).to_vec())]
}

fn ipv6_address() -> impl Strategy<Value = Vec<u8>> {
    let nearly = |last: u8| [&[0; 15][..], &[last]].concat();
    let group = [&[0xff, 2][..], &[0; 13], &[1]].concat();
    prop_oneof![8 => bytes(16), 1 => prop::sample::select(vec![nearly(0), nearly(1), nearly(2), group])]
}

/// Generates a protocol number and a payload that starts with its header.
fn payload() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let tcp = (bytes(12), 4u8..8, any::<u8>(), bytes(0..80)).prop_map(|(begin, words, flags, rest)| {
        // Without FIN, RST and ACK: a first SYN.
        let flags = if rest.len() % 4 == 0 { flags } else { flags & !0x15 | 2 };
        (6, [&begin[..], &[words << 4, flags], &rest].concat())
    });
    let icmp = (prop::sample::select(vec![0u8, 3, 5, 8, 8, 11, 13]), bytes(0..40));
    let icmpv6 = (prop::sample::select(vec![1u8, 3, 127, 128, 128, 129, 133, 135, 137, 138, 255]), bytes(0..40));
    let message = |protocol| move |(kind, rest): (u8, Vec<u8>)| (protocol, [&[kind][..], &rest].concat());
    prop_oneof![
        4 => tcp,
        2 => bytes(0..200).prop_map(|bytes| (17, bytes)),
        1 => icmp.prop_map(message(1)),
        1 => icmpv6.prop_map(message(58)),
        1 => (any::<u8>(), bytes(0..40)),
    ]
}

fn ipv4() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![6 => Just([0u8, 0]), 1 => Just([0x40, 0]), 1 => Just([0x20, 0]), 1 => any::<[u8; 2]>()];
    let first = prop_oneof![12 => Just(0x45u8), 1 => any::<u8>()];
    let cut = prop_oneof![8 => Just(0u16), 1 => 0u16..40];
    (first, fragment, cut, any::<[u8; 6]>(), ipv4_address(), ipv4_address(), payload()).prop_map(
        |(first, fragment, cut, [tos, id, number, ttl, sum, check], source, destination, (protocol, payload))| {
            let length = (20 + payload.len() as u16).saturating_sub(cut).to_be_bytes();
            let start = [&[0x08, 0x00, first, tos][..], &length, &[id, number], &fragment].concat();
            [&start[..], &[ttl, protocol, sum, check], &source, &destination, &payload].concat()
        },
    )
}

fn ipv6() -> impl Strategy<Value = Vec<u8>> {
    let cut = prop_oneof![8 => Just(0u16), 1 => 0u16..40];
    (cut, bytes(3), any::<u8>(), ipv6_address(), ipv6_address(), payload()).prop_map(
        |(cut, flow, hop_limit, source, destination, (protocol, payload))| {
            let length = (payload.len() as u16).saturating_sub(cut).to_be_bytes();
            let start = [&[0x86, 0xdd, 0x60][..], &flow, &length, &[protocol, hop_limit]].concat();
            [&start[..], &source, &destination, &payload].concat()
        },
    )
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let padding = prop_oneof![2 => Just(Vec::new()), 1 => bytes(0..50)];
    (link_address(), link_address(), tags(), prop_oneof![ipv4(), ipv6()], padding)
        .prop_map(|(destination, source, tags, packet, padding)| [destination, source, tags, packet, padding].concat())
}

#[test]
fn replies_to_generated_frames_match_etherparse() {
    let bytecode = load(without_cells());
    let answered = Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&frame(), |frame| {
        let is_answered = compare(&bytecode, &frame).map_err(TestCaseError::fail)?;
        answered.set(answered.get() + u32::from(is_answered));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let answered = answered.get();
    assert!((CASES / 4..CASES * 3 / 4).contains(&answered), "{answered} of {CASES} frames got a reply");
}

#[test]
fn replies_to_broken_frames_match_etherparse() {
    let bytecode = load(without_cells());
    let mut generator = Generator::new(3);
    let mut answered = 0;
    for _ in 0..100_000 {
        let (frame, _) = generator.make();
        if frame.len() >= SHORTEST {
            answered += u32::from(compare(&bytecode, frame).unwrap_or_else(|wrong| panic!("{wrong}")));
        }
    }
    assert!(answered > 1_000, "too few replies: {answered}");
}
