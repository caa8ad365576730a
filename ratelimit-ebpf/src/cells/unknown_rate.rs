//! The rate that all unknown sources share.
//!
//! While less than half of the burst is left, sources take turns: in each second, another part of them may take from
//! it. So a flood that sends in the same order each second does not make its first sources known, and a source that has
//! its turn gets all its packets through, however many others send.

use ratelimit_common::{
    cells::known_source,
    maps::control::Control,
    meters::gcra::{self, SLACK, Units},
};

use crate::{
    bpf::{clock::Clock, random},
    cells::learned_rate,
    maps::{
        exchange::{FEW_TRIES, exchange},
        shared, this_cpu,
    },
    meters::budget,
};

/// Takes one packet from the common limit. Each CPU takes a batch at a time, so that CPUs do not wait for each other.
#[inline(always)]
#[must_use]
pub fn take(control: &Control, hash: u64, now: u64) -> bool {
    let (Some(cpu), Some(shared)) = (this_cpu::get(), shared::unknown()) else { return true };
    let (time, burst) = (gcra::units(now), learned_rate::burst(control));
    let wait = cpu.unknown_until.load().wrapping_sub(time);
    let (mut left, mut found) = (cpu.unknown_left.load(), shared.load());
    if left == 0 && wait != 0 && wait <= learned_rate::longest_wait(control) {
        return false;
    }
    if !has_turn(burst, found, now, hash) {
        return false;
    }
    if left == 0 {
        let (cost, batch) = learned_rate::batch(control);
        let is_taken = exchange::<FEW_TRIES>(shared, |state| {
            found = state;
            budget::next(state, time, cost, burst)
        });
        if !is_taken {
            budget::cut(shared, found, time, burst, || Clock::coarse(control).units());
            // If other CPUs took batches at every try, this only delays the next one.
            cpu.unknown_until.store(found.wrapping_add(cost).wrapping_sub(burst));
            return false;
        }
        learned_rate::count(batch, now);
        left = batch;
    }
    cpu.unknown_left.store(left - 1);
    cpu.unknown_passed.increment();
    true
}

/// Gives back what a packet took that is refused by another limit. The CPU's next packet gets it.
#[inline(always)]
pub fn give_back() {
    if let Some(cpu) = this_cpu::get() {
        cpu.unknown_left.store(cpu.unknown_left.load() + 1);
        cpu.unknown_passed.store(cpu.unknown_passed.load().wrapping_sub(1));
    }
}

/// Returns whether a source may take from the limit, which is in this state. While the room is a part of half the burst, the square of this part
/// of the sources may, other ones in each second. So their part becomes as small as any flood needs, and they use up the
/// rate.
#[inline(always)]
pub(crate) fn has_turn(burst: Units, state: u64, now: u64, hash: u64) -> bool {
    let (debt, half) = (gcra::debt(state, gcra::units(now)), burst / 2);
    let room = burst.saturating_sub(debt);
    // If this limit cannot have made the debt, it is cut.
    if room >= half || debt > burst + SLACK {
        return true;
    }
    // Without the digits that the product has no room for. A burst has less than 41.
    let (room, half) = (room >> 18, half >> 18);
    random::turn(hash, known_source::second(now)).wrapping_mul(half).wrapping_mul(half) >> 16 < room * room
}
