//! One source on every CPU at once, far over its limit.

use std::{num::NonZero, sync::Barrier, thread};

use ratelimit::dataplane::{program::loader::Settings, sys::host};
use ratelimit_common::limits::limit::{Rate, SECOND};

use super::{
    row::{Packets, Row},
    stage::{PORT, counted},
};
use crate::{Bytecode, Frame, per_second, tokens};

/// Packets of all CPUs together.
const PACKETS: u32 = 10_000_000;
/// Packets of one call.
const BATCH: u32 = 100_000;
const RATE: u64 = 1_000_000;
const BURST: u64 = 1_000;

pub(super) fn play() -> Row {
    let mut bytecode = Bytecode::with_kernel_clock_and(Settings::default());
    bytecode.set("default", per_second(RATE, BURST));
    let cpus = thread::available_parallelism().map_or(1, NonZero::get) as u32;
    let frame = Frame::udp([192, 0, 2, 1], PORT).bytes();
    let start = Barrier::new(cpus as usize);
    let begin = host::now();
    thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(|| {
                start.wait();
                for _ in 0..PACKETS / cpus / BATCH {
                    let _ = bytecode.repeat(&frame, BATCH);
                }
            });
        }
    });
    let most = tokens::bound(Rate { amount: RATE, period: SECOND }, BURST, host::now() - begin);
    let forged = counted(&bytecode);
    let (attack, setup) = ("one source on all CPUs at the same time", "--packets 1M/s --burst 1000");
    Row { attack, setup, forged, may_pass: Some(most), honest: Packets::default(), may_lose: 0 }
}
