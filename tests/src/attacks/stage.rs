//! The product's program on the kernel's clock, with forged and honest packets in batches. The packets of a batch belong
//! together, so the counters tell what happened to each kind.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use ratelimit::dataplane::program::loader::Settings;

use super::row::{Packets, Row};
use crate::{Bytecode, Frame, Order, Sources, Walker};

/// Destination port of UDP packets.
pub(super) const PORT: u16 = 9;
/// First number of honest sources. Those of the attacker are below.
const HONEST: u32 = 1 << 31;
/// Time between two steps.
const STEP: Duration = Duration::from_millis(1);

/// One attack in progress.
pub(super) struct Stage {
    pub(super) bytecode: Bytecode,
    forged: Packets,
    honest: Packets,
}

impl Stage {
    pub(super) fn new(settings: Settings) -> Self {
        let bytecode = Bytecode::with_kernel_clock_and(settings);
        Self { bytecode, forged: Packets::default(), honest: Packets::default() }
    }

    /// Returns a walker whose packets are like this one, from numbered sources from `first` on.
    pub(super) fn walker(&self, frame: &Frame, first: u32) -> Walker {
        let mut walker = Walker::of(frame, first);
        walker.lead_to(self.bytecode.program());
        walker
    }

    /// Sends packets of the attacker, from sources in turn.
    pub(super) fn forge(&mut self, walker: &mut Walker, sources: Sources, packets: u32) {
        let before = self.counted();
        walker.run(sources, Order::InTurn, packets);
        self.forged = sum(self.forged, since(before, self.counted()));
    }

    /// Sends packets of one honest source.
    pub(super) fn send(&mut self, number: u32, packets: u32) {
        let before = self.counted();
        let frame = Frame::udp(honest(number), PORT).bytes();
        let _ = self.bytecode.repeat(&frame, packets);
        self.honest = sum(self.honest, since(before, self.counted()));
    }

    /// Forgets the packets so far, which prepared the attack.
    pub(super) fn begin(&mut self) {
        (self.forged, self.honest) = (Packets::default(), Packets::default());
    }

    pub(super) fn row(self, attack: &'static str, setup: &'static str, may_pass: Option<u64>, may_lose: u64) -> Row {
        Row { attack, setup, forged: self.forged, may_pass, honest: self.honest, may_lose }
    }

    /// Returns the packets that the program has decided about.
    fn counted(&self) -> Packets {
        let mut counted = Packets::default();
        for (reason, count) in self.bytecode.counts() {
            counted.offered += count.packets;
            counted.passed += if reason.passes() { count.packets } else { 0 };
        }
        counted
    }
}

/// Plays this many steps of a millisecond each on the kernel's clock.
pub(super) fn in_steps(steps: u32, mut step: impl FnMut(u32)) {
    let begin = Instant::now();
    for number in 0..steps {
        thread::sleep((STEP * number).saturating_sub(begin.elapsed()));
        step(number);
    }
}

/// Returns the honest source with this number.
fn honest(number: u32) -> Ipv4Addr {
    Walker::source(HONEST + number)
}

fn since(before: Packets, after: Packets) -> Packets {
    Packets { offered: after.offered - before.offered, passed: after.passed - before.passed }
}

fn sum(one: Packets, other: Packets) -> Packets {
    Packets { offered: one.offered + other.offered, passed: one.passed + other.passed }
}
