//! Bans sources that exceed a limit whose policy asks for it. A ban ends by its time, without a packet.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::source::Source,
    limits::policy::{BANNED_ID, Policy},
    maps::control::Control,
    rules::rule::{BANNED, Rule},
};

use crate::{
    bpf::{clock::Clock, verifier::key},
    maps::{buckets, rules, this_cpu},
    overlimit::ban_history,
    packet::context::Context,
    telemetry::events,
};

/// Bans the source of a packet that its bucket has refused, as its policy says. If the map has no room, that is
/// counted, and the source stays under its limit.
#[inline(always)]
pub fn impose(context: &Context, control: &Control, policy: &Policy) {
    let now = Clock::read(control).now();
    let is_plain = policy.ban.after <= 1 && policy.ban.most <= policy.ban.time;
    let time = if is_plain { policy.ban.time } else { ban_history::count(context, control, &policy.ban, now) };
    if time != 0 {
        let until = now.saturating_add(time);
        if insert(&context.source, until) {
            events::banned(context, until);
        }
    }
}

/// Inserts a ban, and makes the source's bucket resolve its policy again. Returns whether the map has room.
#[inline(never)]
fn insert(source: &Source, expires: u64) -> bool {
    let source = &key(source);
    let ban = Rule { policy: BANNED_ID, prefix: source.prefix, origin: BANNED, reserved: 0, expires };
    if !rules::insert_ban(source, ban) {
        this_cpu::count(|cpu| &cpu.bans_failed);
        return false;
    }
    if let Some(bucket) = buckets::find(source) {
        bucket.resolution.store(Resolution::NONE.0);
    }
    true
}
