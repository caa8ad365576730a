//! Packets over a limit: bans, soft and elastic limits, and shadow.

mod ban;
mod ban_history;
mod ban_table;
mod elastic;
mod shadow;
mod soft;

use ratelimit_common::{
    limits::{limit::SECOND, policy::Ban},
    reason::Reason,
};
use ratelimit_tests::{Bytecode, Frame};

const ADDRESS: [u8; 4] = [192, 0, 2, 1];
const TEN_MINUTES: u64 = 600 * SECOND;
/// A ban at the first dropped packet, always of the same length.
const BAN: Ban = Ban { time: TEN_MINUTES, most: TEN_MINUTES, after: 1, reserved: 0 };

fn frame(address: [u8; 4]) -> Vec<u8> {
    Frame::udp(address, 9).bytes()
}

/// Sends until a limit of five packets refuses one.
fn exceed(bytecode: &Bytecode, address: [u8; 4]) {
    let reasons = [0; 6].map(|_| bytecode.reason(&frame(address)));
    assert_eq!(reasons[5], Reason::OverPackets);
}
