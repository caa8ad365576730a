//! How often a source was dropped, and banned, of late.

use ratelimit_common::{
    bucket::Resolution,
    offence::{Drops, LastBan},
    policy::Ban,
};

use crate::{
    admission,
    charge::{self, Charge},
    front, tracking,
    visit::Visit,
};

/// Counts that a packet of this source was dropped at `now` (nanoseconds). For how many nanoseconds that bans it; 0 is not at all.
///
/// Where there is no room to remember that, the source stays under its limit.
#[inline(never)]
#[must_use]
pub fn count(visit: &Visit<'_>, ban: &Ban, now: u64) -> u64 {
    let key = visit.source.offences();
    if tracking::find(&key).is_none() {
        if front::is_on() && !admission::admits(visit.control, visit.tick) {
            return 0;
        }
        admission::make(&key, 0, 0, Resolution::NONE);
    }
    let Some(memory) = tracking::find(&key) else { return 0 };
    let mut are_enough = false;
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(&memory.packets, |seen| {
        let drops = Drops(seen).one_more(now);
        are_enough = drops.are_enough(ban);
        Some(if are_enough { 0 } else { drops.0 })
    });
    if outcome != Charge::Paid || !are_enough {
        return 0;
    }
    let (last, time) = LastBan(memory.second.load()).next(ban, now);
    memory.second.store(last.0);
    time
}
