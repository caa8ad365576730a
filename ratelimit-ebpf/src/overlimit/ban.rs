//! Bans sources that exceed a limit whose policy asks for it. A ban ends by its time, without a packet.
//!
//! The recent drops and bans of a source are two words in an entry of the map of buckets, whose key names the source: the
//! number of drops since a time, and the end of the last ban. Neither costs anything for a packet within its limit.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::source::Source,
    limits::{
        ban_history::{Drops, LastBan},
        policy::Policy,
    },
    maps::control::Control,
};

use crate::{
    bpf::{
        clock::Clock,
        verifier::{given, key},
    },
    buckets::create,
    maps::{
        bans, buckets,
        exchange::{FEW_TRIES, exchange},
        rules::spared,
        this_cpu,
    },
    packet::context::{Context, NOT_OWN},
    telemetry,
};

/// Bans the source of a packet that its bucket has refused, as its policy says. If the table has no room, that is
/// counted, and the source stays under its limit. A packet that was [not looked up](crate::packet::context::NOT_LOOKED_UP)
/// counts as a drop, but causes no ban: this host may have opened its connection. A ban of a spared source would not
/// apply, so there is none.
#[inline(always)]
pub fn impose(context: &Context, control: &Control, policy: &Policy) {
    let now = Clock::read(control).now();
    let is_plain = policy.ban.after <= 1 && policy.ban.most <= policy.ban.time;
    let time = if is_plain {
        if context.own() == NOT_OWN { policy.ban.time } else { 0 }
    } else {
        count_drop(context, control, now)
    };
    if time != 0 && !spared::has(&context.source) {
        let until = now.saturating_add(time);
        if insert(&context.source, until, now) {
            telemetry::report_ban(context, until);
        }
    }
}

/// Inserts a ban, and makes the source's bucket resolve its policy again. Returns whether the table has room.
#[inline(never)]
fn insert(source: &Source, expires: u64, now: u64) -> bool {
    if !bans::insert(source, expires, now) {
        this_cpu::count(|cpu| &cpu.bans_failed);
        return false;
    }
    if let Some(bucket) = buckets::find(&key(source)) {
        bucket.resolution.store(Resolution::NONE.0);
    }
    true
}

/// Counts a drop of this source at `now`, in nanoseconds. Returns the nanoseconds of the ban that it causes; 0 if none.
///
/// If there is no room for the history, the source stays under its limit.
#[inline(always)]
fn count_drop(context: &Context, control: &Control, now: u64) -> u64 {
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
