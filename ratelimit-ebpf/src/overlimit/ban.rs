//! Shuts sources out that exceed a limit which says so. What no packet asks for again ends by itself.

use aya_ebpf::bindings::BPF_ANY;
use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::source::Source,
    limits::policy::{BANNED_ID, Policy},
    rules::rule::{BANNED, Rule},
};

use crate::{
    bpf::{atomic::Word, clock::Clock, verifier::key},
    maps::{
        all::{BANS, CONTROL, RULE_FILTER},
        this_cpu,
    },
    overlimit::ban_history,
    packet::context::Visit,
    rules::cache,
    telemetry::events,
};

/// Bans the source of a packet that its bucket has refused, once its policy says so. Where the map has no room that is counted, and the
/// source stays under its limit.
#[inline(always)]
pub fn impose(visit: &Visit, policy: &Policy) {
    let Some(control) = CONTROL.get(0) else { return };
    let now = Clock::read(control).now();
    let is_plain = policy.ban.after <= 1 && policy.ban.most <= policy.ban.time;
    let time = if is_plain { policy.ban.time } else { ban_history::count(visit, &policy.ban, now) };
    if time != 0 {
        let until = now.saturating_add(time);
        if insert(&visit.source, until) {
            events::banned(visit, until);
        }
    }
}

/// Whether there was room. A function of its own, since it is rarely called.
#[inline(never)]
fn insert(source: &Source, expires: u64) -> bool {
    let source = &key(source);
    let rule = Rule { policy: BANNED_ID, prefix: source.prefix, origin: BANNED, reserved: 0, expires };
    if BANS.insert(source, rule, u64::from(BPF_ANY)).is_err() {
        if let Some(own) = this_cpu::own() {
            own.bans_failed.increment();
        }
        return false;
    }
    // From now on a rule concerns the source, and its bucket has to ask for it. Where another CPU marks a neighbour just now, the source's
    // next refusal does so.
    if let Some(filter) = RULE_FILTER.get(0) {
        let (word, bit) = filter.place(source);
        let seen = Word::of(word).load();
        let _ = Word::of(word).compare_exchange(seen, seen | 1 << bit);
    }
    if let Some(bucket) = cache::find(source) {
        bucket.resolution.store(Resolution::NONE.0);
    }
    true
}
