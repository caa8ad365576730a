//! How often a source was dropped, and banned, of late.

use ratelimit_common::{
    buckets::bucket::Resolution,
    limits::{
        ban_history::{Drops, LastBan},
        policy::Ban,
    },
};

use crate::{
    bpf::verifier::given,
    buckets::create,
    maps::all::CONTROL,
    meters::charge::{self, Charge},
    packet::context::Visit,
};

/// Counts that a packet of this source was dropped at `now` (nanoseconds). For how many nanoseconds that bans it; 0 is not at all.
///
/// Where there is no room to remember that, the source stays under its limit.
#[inline(always)]
#[must_use]
pub fn count(visit: &Visit, ban: &Ban, now: u64) -> u64 {
    count_offence(visit, ban, now)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn count_offence(visit: *const Visit, ban: *const Ban, now: u64) -> u64 {
    let (Some(visit), Some(ban), Some(control)) = (given(visit), given(ban), CONTROL.get(0)) else { return 0 };
    let key = visit.source.offences();
    // Nothing but zero says that there was no drop and no ban.
    let Ok(memory) = create::bucket(&key, 0, Resolution::NONE, control, visit.tick) else { return 0 };
    let mut are_enough = false;
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(&memory.packets, |seen| {
        let drops = Drops(seen).one_more(now);
        are_enough = drops.are_enough(ban);
        Some(if are_enough { 0 } else { drops.0 })
    });
    if outcome != Charge::Paid || !are_enough {
        return 0;
    }
    let mut time = 0;
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(&memory.second, |seen| {
        let (last, next) = LastBan(seen).next(ban, now);
        time = next;
        Some(last.0)
    });
    if outcome == Charge::Paid { time } else { ban.time }
}
