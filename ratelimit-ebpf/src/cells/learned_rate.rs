//! Learns the rate of the unknown sources from calm minutes. See [`ratelimit_common::cells::learned_rate`].
//!
//! Nothing here runs for packets of known sources. A CPU that takes a batch counts it, and one batch in a minute ends
//! the minute.

use ratelimit_common::{
    cells::learned_rate::{self, BURST, MOST_COST},
    maps::control::Control,
    meters::gcra::Units,
    reason::Reason,
};

use crate::{
    bpf::settings,
    maps::learned_rate::{self as map, LearnedRate},
};

/// Returns whether the program learns the rate.
#[inline(always)]
fn is_on() -> bool {
    settings::is_on(&settings::UNKNOWN_LEARNED)
}

/// Returns the burst of the rate in force.
#[inline(always)]
#[must_use]
pub fn burst(control: &Control) -> Units {
    if is_on() { BURST } else { control.unknown.burst }
}

/// Returns the time for which a CPU remembers that the rate is spent.
#[inline(always)]
#[must_use]
pub fn longest_wait(control: &Control) -> Units {
    if is_on() { MOST_COST } else { control.unknown.cost }
}

/// Returns the cost of a batch at the rate in force, and its packets.
#[inline(always)]
#[must_use]
pub fn batch(control: &Control) -> (Units, u64) {
    if is_on()
        && let Some(learned) = map::get()
    {
        let per_minute = learned.in_force();
        let batch = learned_rate::batch(per_minute);
        return (learned_rate::cost(per_minute, batch), batch);
    }
    (control.unknown.cost, control.unknown_batch.max(1))
}

/// Counts a batch that was taken. The first one after a minute ends the minute.
#[inline(always)]
pub fn count(batch: u64, now: u64) {
    if is_on()
        && let Some(learned) = map::get()
    {
        let begun = learned.begun.load();
        // Of several CPUs, one ends the minute.
        if learned_rate::has_ended(begun, now) && learned.begun.compare_exchange(begun, now).is_ok() {
            end_minute(learned, learned_rate::is_pause(begun, now));
        }
        learned.passed.add(batch);
    }
}

/// Counts a packet that is refused because the rate is spent, and returns the reason. In a minute that cannot be calm
/// anyway, it does not, so that a flood hardly writes.
#[inline(always)]
#[must_use]
pub fn refused(reason: Reason) -> Reason {
    if is_on()
        && let Some(learned) = map::get()
        && learned.refused.load() < learned_rate::most_refused(learned.in_force())
    {
        learned.refused.add(1);
    }
    reason
}

/// Learns from the minute, and decides about the rate of the next one.
#[inline(never)]
fn end_minute(learned: &LearnedRate, is_pause: bool) {
    let (passed, refused, calm) = (learned.passed.load(), learned.refused.load(), learned.calm.load());
    let settling = learned.settling.load();
    // Other CPUs may be counting.
    learned.passed.add(0u64.wrapping_sub(passed));
    learned.refused.add(0u64.wrapping_sub(refused));
    let is_calm = refused <= learned_rate::tolerated(passed);
    if is_calm && let Some(day) = learned.most.get(learned_rate::place(calm) as usize) {
        let counted = learned_rate::counted(calm, settling, passed);
        day.store(learned_rate::most_of_day(day.load(), calm, counted));
    }
    let (restless_of_day, repeats) = (learned.restless_of_day.load(), learned.repeats.load());
    let (calm, restless_of_day, repeats) = learned_rate::count_minute(calm, restless_of_day, repeats, is_calm);
    learned.calm.store(calm);
    learned.restless_of_day.store(restless_of_day);
    learned.repeats.store(repeats);
    let most = learned.most.iter().fold(0, |most, day| most.max(day.load()));
    let per_minute = learned_rate::in_force(learned.per_minute.load(), 0);
    learned.per_minute.store(learned_rate::next(per_minute, calm, most));
    let (settling, restless) = learned_rate::settle(settling, learned.restless.load(), is_calm, is_pause);
    learned.settling.store(settling);
    learned.restless.store(restless);
}
