//! Unknown sources: sources that are not known sources. A spoofed flood consists of them, each within its limit, so they have one together.

use ratelimit_common::{
    cells::known_source::{self, KnownSource},
    maps::control::Control,
    meters::gcra::{self, Answer},
};

use crate::{
    bpf::settings,
    cells::cell,
    maps::{all::UNKNOWN, this_cpu},
    meters::charge::{self, Charge},
};

/// Whether unknown sources are limited.
#[inline(always)]
#[must_use]
pub fn are_limited() -> bool {
    settings::is_on(&settings::UNKNOWN_ON)
}

/// Whether a packet passes: its source is a known source, or unknown sources have something left. The source is remembered.
#[inline(never)]
#[must_use]
pub fn admit(control: &Control, hash: u64, now: u64) -> bool {
    is_known(hash, now) || take(control, now)
}

/// Whether the source with this hash is a known source by now. It has a place in its cell; where both belong to other known sources, in the one beside.
#[inline(always)]
fn is_known(hash: u64, now: u64) -> bool {
    let second = known_source::second(now);
    let own = remember(hash, hash, second);
    let found = if own == NO_PLACE { remember(hash ^ 1, hash, second) } else { own };
    found == KNOWN
}

// What has become of looking for a source in a cell.
const UNKNOWN_SOURCE: u32 = 0;
const KNOWN: u32 = 1;
const NO_PLACE: u32 = 2;

/// Looks for the source with this hash in the cell at `place`, and remembers that it was seen. A function of its own, for the verifier to go
/// on from it in one state.
#[inline(never)]
fn remember(place: u64, hash: u64, second: u64) -> u32 {
    let Some(cell) = cell::cell(place) else { return KNOWN };
    let [first, last] = cell.known();
    let seen = [KnownSource(first.load()), KnownSource(last.load())];
    let (place, before) = if seen[0].is(hash) {
        (first, seen[0])
    } else if seen[1].is(hash) {
        (last, seen[1])
    } else {
        // Whoever is remembered without need gives way. Losing the place to another CPU means to try with the next packet.
        if seen[0].gives_way(second) {
            first.store(KnownSource::new(hash, second).0);
        } else if seen[1].gives_way(second) {
            last.store(KnownSource::new(hash, second).0);
        } else if seen[0].is_known() && seen[1].is_known() {
            return NO_PLACE;
        }
        return UNKNOWN_SOURCE;
    };
    let after = before.seen(second);
    if after != before {
        let _ = place.compare_exchange(before.0, after.0);
    }
    if after.is_known() { KNOWN } else { UNKNOWN_SOURCE }
}

/// Takes one packet's worth from what all unknown sources may send. Each CPU takes a batch at a time, so that they do not wait for each other.
#[inline(always)]
fn take(control: &Control, now: u64) -> bool {
    let (Some(cpu), Some(shared)) = (this_cpu::own(), UNKNOWN.get(0)) else { return true };
    let (now, budget) = (gcra::units(now), &control.unknown);
    let mut left = cpu.unknown_left.load();
    if left == 0 {
        let wait = cpu.unknown_until.load().wrapping_sub(now);
        if wait != 0 && wait <= budget.cost {
            return false;
        }
        let mut until = now;
        let outcome = charge::exchange::<{ charge::FEW_TRIES }>(shared, |state| {
            match gcra::ask(state, now, budget.cost, budget.capacity, budget.capacity) {
                Answer::Admit(next) => Some(next),
                // Not of this budget: it was changed.
                Answer::Cap(_) => Some(now.wrapping_add(budget.cost)),
                Answer::Refuse => {
                    until = state.wrapping_add(budget.cost).wrapping_sub(budget.capacity);
                    None
                }
            }
        });
        match outcome {
            Charge::Paid => left = control.unknown_batch.max(1),
            Charge::Refused => {
                cpu.unknown_until.store(until);
                return false;
            }
            Charge::Contended => return true,
        }
    }
    cpu.unknown_left.store(left - 1);
    cpu.unknown_passed.increment();
    true
}
