//! Judges a packet: the one function between parsing and acting.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{class::Classes, source::Source},
    limits::policy::{self, DROP},
    maps::control::Control,
    reason::Reason,
    rules::rule::NEVER,
};

use crate::{
    bpf::{clock::Clock, settings},
    cells::{cell, unknown_sources},
    limits::{ask, windowed},
    maps::all::{CONTROL, POLICIES, RULE_FILTER},
    meters::token_bucket::Tracked,
    overlimit::{overrun, refusals},
    packet::{context::Visit, verdict::Verdict},
    rules::{cache, cost, lookup, source_key},
};

/// What becomes of a packet of `length` bytes from `address`, and why, that belongs to these services and came in by this interface.
#[inline(always)]
#[must_use]
pub fn judge(address: Source, classes: Classes, length: u32, interface: u32) -> Verdict {
    let Some(control) = CONTROL.get(0) else { return Reason::NoState.into() };
    let now = Clock::coarse(control).now();
    let mut visit = Visit::new(address, now, [length, cost::of(classes)], interface);
    let outcome = match cell::is_on() {
        true => behind_cells(&mut visit, control, classes),
        false => without_cells(&mut visit, control, classes),
    };
    match outcome {
        Ok(bucket) => decide(&mut visit, control, bucket),
        Err(verdict) => verdict,
    }
}

/// Without cells every source has its own bucket, which remembers its policy.
#[inline(always)]
fn without_cells(visit: &mut Visit, control: &Control, classes: Classes) -> Result<Option<&'static Tracked>, Verdict> {
    if windowed::are_logs_on() && !is_concerned(visit) {
        // Its log is all that such a source needs.
        let generation = lookup::generation(control);
        source_key::identify(&mut visit.source, classes, control, visit.now, false);
        let (class, policy) = lookup::default(classes);
        if POLICIES.get(policy).is_some_and(windowed::keeps_logs) {
            visit.source.class = u16::from(class);
            visit.resolution = Resolution::new(generation, policy, NEVER);
            return Ok(None);
        }
    }
    source_key::identify(&mut visit.source, classes, control, visit.now, true);
    let (bucket, resolution) = cache::track(&mut visit.source, classes, control, visit.now)?;
    visit.resolution = resolution;
    Ok(bucket)
}

/// With cells only sources that a rule may concern are looked up.
///
/// # Errors
///
/// What decides at once: a cell's note.
#[inline(always)]
fn behind_cells(visit: &mut Visit, control: &Control, classes: Classes) -> Result<Option<&'static Tracked>, Verdict> {
    let (now, length) = (visit.now, visit.length());
    // Read before the rules: where one changes meanwhile, what is noted is stale, never wrong.
    let generation = lookup::generation(control);
    let is_concerned = is_concerned(visit);
    source_key::identify(&mut visit.source, classes, control, now, is_concerned);
    if !is_concerned {
        let (class, policy) = lookup::default(classes);
        visit.source.class = u16::from(class);
        visit.resolution = Resolution::new(generation, policy, NEVER);
    }
    visit.note_hash = visit.source.hash(&control.seed);
    let cell = cell::cell(visit.note_hash).ok_or(Reason::NoState)?;
    if let Some(verdict) = cell.refusal(visit, control) {
        return Err(verdict);
    }
    visit.hash = visit.note_hash;
    if is_concerned {
        visit.resolution = cache::resolution(&mut visit.source, classes, control, now, length);
        if settings::is_on(&settings::SERVICES_ON) {
            visit.hash = visit.source.hash(&control.seed);
        }
    }
    Ok(None)
}

/// Whether a rule may concern the address of a packet.
#[inline(always)]
fn is_concerned(visit: &Visit) -> bool {
    RULE_FILTER.get(0).is_none_or(|filter| filter.concerns(&visit.source))
}

/// What the policy says. `bucket` is the source's own, where there are no cells.
#[inline(always)]
fn decide(visit: &mut Visit, control: &Control, bucket: Option<&'static Tracked>) -> Verdict {
    let Some(policy) = visit.policy() else { return Reason::NoState.into() };
    match policy.kind {
        policy::LIMIT => {}
        policy::ALLOW => return verdict(visit, bucket, Reason::Allowed).into(),
        policy::DENY => return verdict(visit, bucket, Reason::Denied).into(),
        policy::BAN => return verdict(visit, bucket, Reason::Banned).into(),
        _ => return Reason::NoState.into(),
    }
    if unknown_sources::are_limited() && !unknown_sources::admit(control, visit.hash, visit.now) {
        return Reason::OverUnknown.into();
    }
    let bucket = ask::ask(visit, control, policy, bucket);
    let reason = if visit.reason.passes() { visit.reason } else { overrun::settle(visit, bucket) };
    Verdict { reason, action: if settings::is_on(&settings::ACTIONS_ON) { policy.over_limit } else { DROP } }
}

/// A rule that needs no state has decided. A refusal is noted.
#[inline(never)]
fn verdict(visit: &Visit, bucket: Option<&Tracked>, reason: Reason) -> Reason {
    if let Some(bucket) = bucket {
        if reason.passes() {
            bucket.counts.count_passed(1, u64::from(visit.length()));
        } else {
            bucket.counts.count_dropped(DROP, 1, u64::from(visit.length()));
        }
    }
    if cell::is_on() && !reason.passes() {
        refusals::settle(visit, cache::find(&visit.source));
        refusals::write_all(visit, reason);
    }
    reason
}
