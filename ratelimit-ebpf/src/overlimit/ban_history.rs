//! The recent drops and bans of a source: two words in an entry of the map of buckets, whose key names the source.
//!
//! One word holds the number of drops since a time, and the other the end of the last ban. Neither costs anything for a
//! packet within its limit.

use ratelimit_common::{
    buckets::bucket::Resolution,
    limits::ban_history::{Drops, LastBan},
    maps::control::Control,
};

use crate::{
    bpf::verifier::given,
    buckets::create,
    maps::exchange::{FEW_TRIES, exchange},
    packet::context::{Context, NOT_OWN},
};

/// Counts a drop of this source at `now`, in nanoseconds. Returns the nanoseconds of the ban that it causes; 0 if none.
///
/// If there is no room for the history, the source stays under its limit.
#[inline(always)]
#[must_use]
pub fn count(context: &Context, control: &Control, now: u64) -> u64 {
    count_offence(context, control, now)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn count_offence(context: *const Context, control: *const Control, now: u64) -> u64 {
    let (Some(context), Some(control)) = (given(context), given(control)) else { return 0 };
    let Some(policy) = context.policy() else { return 0 };
    let ban = &policy.ban;
    let key = context.source.offences();
    // Only zero says that there was no drop and no ban.
    let Ok(history) = create::bucket(&key, policy, 0, Resolution::NONE, control, context.tick) else { return 0 };
    let mut are_enough = false;
    let is_counted = exchange::<FEW_TRIES>(&history.packets, |seen| {
        let drops = Drops(seen).one_more(now);
        are_enough = drops.are_enough(ban) && context.own() == NOT_OWN;
        Some(if are_enough { 0 } else { drops.0 })
    });
    if !is_counted || !are_enough {
        return 0;
    }
    let mut time = 0;
    let is_noted = exchange::<FEW_TRIES>(&history.second, |seen| {
        let (last, next) = LastBan(seen).next(ban, now);
        time = next;
        Some(last.0)
    });
    if is_noted { time } else { ban.time }
}
