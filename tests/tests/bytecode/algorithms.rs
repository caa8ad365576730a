//! Every algorithm against its definition, and what is said about all of them.

// Said in full, since another program has this file under another path.
#[path = "algorithms/costs.rs"]
mod costs;
#[path = "algorithms/draw.rs"]
mod draw;
#[path = "algorithms/elastic.rs"]
mod elastic;
#[path = "algorithms/examples.rs"]
mod examples;
#[path = "algorithms/fronts.rs"]
mod fronts;
#[path = "algorithms/offenders.rs"]
mod offenders;
#[path = "algorithms/races.rs"]
mod races;
#[path = "algorithms/schedules.rs"]
mod schedules;
#[path = "algorithms/shadow.rs"]
mod shadow;
#[path = "algorithms/soft.rs"]
mod soft;
#[path = "algorithms/switches.rs"]
mod switches;

use ratelimit::dataplane::program::loader::Settings;
use ratelimit_common::{
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    reason::Reason,
};
use ratelimit_tests::{Bytecode, Frame, Verdict};

const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const ADDRESS: [u8; 4] = [192, 0, 2, 1];

/// With all that any algorithm needs.
fn settings() -> Settings {
    Settings { windows: true, logs: true, source_logs: 1 << 10, ..crate::settings() }
}

/// So many packets in a time.
fn packets(algorithm: Algorithm, amount: u64, period: u64) -> Limit {
    Limit { packets: Some(Rate { amount, period }), algorithm, ..Limit::default() }
}

/// The same as a policy.
fn limit(algorithm: Algorithm, amount: u64, period: u64) -> Policy {
    packets(algorithm, amount, period).policy().unwrap()
}

/// A program with this limit for everybody.
fn load(policy: Policy) -> Bytecode {
    let mut bytecode = Bytecode::with(settings());
    bytecode.set("default", policy);
    bytecode
}

fn frame(address: [u8; 4]) -> Vec<u8> {
    Frame::udp(address, 9).bytes()
}

/// The source of this number.
fn source(number: u32) -> [u8; 4] {
    (0x0a00_0000 + number).to_be_bytes()
}

/// How many of so many packets pass.
fn passed(bytecode: &Bytecode, frame: &[u8], times: u32) -> u64 {
    (0..times).map(|_| u64::from(bytecode.send(frame) == Verdict::Pass)).sum()
}

/// Nothing passed because it could not be judged.
fn assert_all_judged(bytecode: &Bytecode) {
    for reason in [Reason::Contended, Reason::NoState, Reason::TableFull, Reason::NotAdmitted, Reason::Unreadable] {
        assert_eq!(bytecode.count(reason), 0, "{reason:?}");
    }
}
