//! The product's program on the kernel's clock, with packets of an attacker in batches, and honest packets one by one.

use std::{
    thread,
    time::{Duration, Instant},
};

use ratelimit::dataplane::program::loader::Settings;

use super::row::{Packets, Row};
use crate::{Bytecode, Frame, Order, Sources, Verdict, Walker};

/// Destination port of UDP packets.
pub(super) const PORT: u16 = 9;
/// First number of honest sources. Those of the attacker are below.
const HONEST: u32 = 1 << 31;
/// Time between two steps.
const STEP: Duration = Duration::from_millis(1);

/// One attack in progress.
pub(super) struct Stage {
    pub(super) bytecode: Bytecode,
    /// What was counted when the attack began.
    before: Packets,
    honest: Packets,
}

impl Stage {
    pub(super) fn new(settings: Settings) -> Self {
        let bytecode = Bytecode::with_kernel_clock_and(settings);
        Self { bytecode, before: Packets::default(), honest: Packets::default() }
    }

    /// Returns a walker whose packets are like this one, from numbered sources from `first` on.
    pub(super) fn walker(&self, frame: &Frame, first: u32) -> Walker {
        let mut walker = Walker::of(frame, first);
        walker.lead_to(self.bytecode.program());
        walker
    }

    /// Sends packets of one honest source.
    pub(super) fn send(&mut self, number: u32, packets: u32) {
        let frame = Frame::udp(Walker::source(HONEST + number), PORT).bytes();
        for _ in 0..packets {
            self.honest.offered += 1;
            self.honest.passed += u64::from(self.bytecode.send(&frame) == Verdict::Pass);
        }
    }

    /// Forgets the packets so far, which prepared the attack.
    pub(super) fn begin(&mut self) {
        (self.before, self.honest) = (counted(&self.bytecode), Packets::default());
    }

    /// Returns the result. Every packet that is not honest was the attacker's.
    pub(super) fn row(self, attack: &'static str, setup: &'static str, may_pass: Option<u64>, may_lose: u64) -> Row {
        let (all, honest) = (counted(&self.bytecode), self.honest);
        let forged = Packets {
            offered: all.offered - self.before.offered - honest.offered,
            passed: all.passed - self.before.passed - honest.passed,
        };
        Row { attack, setup, forged, may_pass, honest, may_lose }
    }
}

/// Returns the packets that the program has decided about. Whatever the reason, a packet that passes has passed.
pub(super) fn counted(bytecode: &Bytecode) -> Packets {
    let mut counted = Packets::default();
    for (reason, count) in bytecode.counts() {
        counted.offered += count.packets;
        counted.passed += if reason.passes() { count.packets } else { 0 };
    }
    counted
}

/// Sends packets of an attacker, from sources in turn.
pub(super) fn forge(walker: &mut Walker, sources: Sources, packets: u32) {
    walker.run(sources, Order::InTurn, packets);
}

/// Plays this many steps of a millisecond each on the kernel's clock.
pub(super) fn in_steps(steps: u32, mut step: impl FnMut(u32)) {
    let begin = Instant::now();
    for number in 0..steps {
        thread::sleep((STEP * number).saturating_sub(begin.elapsed()));
        step(number);
    }
}
