//! Bans sources that exceed a limit whose policy asks for it. A ban ends by its time, without a packet.

use ratelimit_common::{
    buckets::bucket::Resolution, identity::source::Source, limits::policy::Policy, maps::control::Control,
};

use crate::{
    bpf::{clock::Clock, verifier::key},
    maps::{bans, buckets, rules::spared, this_cpu},
    overlimit::ban_history,
    packet::context::{Context, NOT_OWN},
    telemetry::events,
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
        ban_history::count(context, control, now)
    };
    if time != 0 && !spared::has(&context.source) {
        let until = now.saturating_add(time);
        if insert(&context.source, until, now) {
            events::banned(context, until);
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
