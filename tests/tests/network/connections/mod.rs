//! Connections of the protected host.

mod handshake;
mod own;
mod proofs;
mod scan;

use ratelimit_tests::{Flood, Frame, Running, Sandbox};

/// Packets that have spent the rate of unknown sources.
const ENOUGH: u64 = 10_000;

/// Starts a flood of this frame from forged addresses, with so many packets per second. It has spent the rate of unknown
/// sources when this returns.
fn forge(sandbox: &Sandbox, frame: Frame, per_second: u32) -> Running {
    let flood = Flood::of(frame).endless(0).busy_pace(per_second).start(sandbox);
    while flood.sent() < ENOUGH {
        std::thread::yield_now();
    }
    flood
}
