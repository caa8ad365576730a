//! Algorithms: each one is compared with its model.

mod contention;
mod examples;
mod precision;
mod races;
pub(crate) mod schedules;
mod switches;

use ratelimit_common::{
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, Verdict};

use crate::front::Front;

pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const ADDRESS: [u8; 4] = [192, 0, 2, 1];

/// Returns settings that enable every algorithm.
pub(crate) fn settings(front: Front) -> Settings {
    Settings { windows: true, logs: true, sliding_logs: 1 << 10, ..front.settings() }
}

/// Returns a limit of packets per period.
pub(crate) fn packets(algorithm: Algorithm, amount: u64, period: u64) -> Limit {
    Limit { packets: Some(Rate { amount, period }), algorithm, ..Limit::default() }
}

/// Returns such a limit as a policy.
pub(crate) fn limit(algorithm: Algorithm, amount: u64, period: u64) -> Policy {
    packets(algorithm, amount, period).policy().unwrap()
}

/// Loads a program with this default limit.
pub(crate) fn load(front: Front, policy: Policy) -> Bytecode {
    let mut bytecode = Bytecode::with(settings(front));
    bytecode.set("default", policy);
    bytecode
}

pub(crate) fn frame(address: [u8; 4]) -> Vec<u8> {
    Frame::udp(address, 9).bytes()
}

/// Returns the source with this number.
pub(crate) fn source(number: u32) -> [u8; 4] {
    (0x0a00_0000 + number).to_be_bytes()
}

/// Sends packets and returns how many pass.
pub(crate) fn passed(bytecode: &Bytecode, frame: &[u8], times: u32) -> u64 {
    (0..times).map(|_| u64::from(bytecode.send(frame) == Verdict::Pass)).sum()
}

/// Asserts that the program decided about every packet.
pub(crate) fn assert_all_decided(bytecode: &Bytecode) {
    for reason in [Reason::Contended, Reason::NoState, Reason::TableFull, Reason::NotAdmitted, Reason::Unreadable] {
        assert_eq!(bytecode.count(reason), 0, "{reason:?}");
    }
}
