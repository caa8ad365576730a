//! Judges a packet: the one function between parsing and acting.

use ratelimit_common::{
    bucket::Resolution,
    class::Classes,
    control::Control,
    policy::{self, COARSE, DROP, Policy},
    reason::Reason,
    rule::NEVER,
    source::Source,
};

use crate::{
    algorithm,
    bucket::Tracked,
    charge::Charge,
    clock::Clock,
    cost, front, identity, levels,
    maps::{CONTROL, POLICIES, RULE_FILTER},
    notes, overrun, own, parents, rules, sample, settings, strangers, tracking,
    verdict::Verdict,
    visit::Visit,
};

/// What becomes of a packet of `length` bytes from `address`, and why, that belongs to these services and came in by this interface.
#[inline(always)]
#[must_use]
pub fn judge(address: Source, classes: Classes, length: u32, interface: u32) -> Verdict {
    let Some(control) = CONTROL.get(0) else { return Reason::NoState.into() };
    let now = Clock::coarse(control).now();
    let mut visit = Visit::new(address, now, [length, cost::of(classes)], interface);
    let outcome = match front::is_on() {
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
    if algorithm::are_logs_on() && !is_concerned(visit) {
        // Its log is all that such a source needs.
        let generation = rules::generation(control);
        identity::identify(&mut visit.source, classes, control, visit.now, false);
        let (class, policy) = rules::default(classes);
        if POLICIES.get(policy).is_some_and(algorithm::keeps_logs) {
            visit.source.class = u16::from(class);
            visit.resolution = Resolution::new(generation, policy, NEVER);
            return Ok(None);
        }
    }
    identity::identify(&mut visit.source, classes, control, visit.now, true);
    let (bucket, resolution) = tracking::track(&mut visit.source, classes, control, visit.now)?;
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
    let generation = rules::generation(control);
    let is_concerned = is_concerned(visit);
    identity::identify(&mut visit.source, classes, control, now, is_concerned);
    if !is_concerned {
        let (class, policy) = rules::default(classes);
        visit.source.class = u16::from(class);
        visit.resolution = Resolution::new(generation, policy, NEVER);
    }
    visit.note_hash = visit.source.hash(&control.seed);
    let cell = front::cell(visit.note_hash).ok_or(Reason::NoState)?;
    if let Some(verdict) = cell.refusal(visit, control) {
        return Err(verdict);
    }
    visit.hash = visit.note_hash;
    if is_concerned {
        visit.resolution = tracking::resolution(&mut visit.source, classes, control, now, length);
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
    if strangers::are_limited() && !strangers::admit(control, visit.hash, visit.now) {
        return Reason::OverStrangers.into();
    }
    let bucket = limit(visit, control, policy, bucket);
    let reason = if visit.reason.passes() { visit.reason } else { overrun::settle(visit, bucket) };
    Verdict { reason, action: if settings::is_on(&settings::ACTIONS_ON) { policy.over_limit } else { DROP } }
}

/// Puts down in the visit what the limits of a policy say. The bucket that counts for the source, where one was asked.
#[inline(always)]
fn limit(
    visit: &mut Visit,
    control: &Control,
    policy: &Policy,
    bucket: Option<&'static Tracked>,
) -> Option<&'static Tracked> {
    let has_parents = settings::is_on(&settings::PARENTS_ON) && policy.has_parents();
    let is_bucket = !algorithm::are_others_on() || policy.is_bucket();
    if is_bucket && !policy.packets.is_on() && !policy.second.is_on() && !has_parents {
        sample::observe(visit);
        return bucket;
    }
    if policy.flags & COARSE == 0 {
        visit.now = Clock::read(control).now();
    }
    if has_parents {
        return parents::ask(visit, bucket);
    }
    if !is_bucket {
        return algorithm::ask(visit, bucket);
    }
    let (clock, amounts) = (visit.clock(control), visit.amounts(policy));
    if !front::is_on() {
        visit.reason = Reason::TableFull;
        let bucket = bucket?;
        visit.reason = bucket.ask(policy, &clock, amounts);
        if visit.reason.passes() {
            bucket.count_passed(1, u64::from(visit.length()));
        }
        return Some(bucket);
    }
    visit.reason = Reason::NoState;
    let cell = front::cell(visit.hash)?;
    visit.reason = match levels::ask(cell, policy, &clock, amounts) {
        Charge::Paid => Reason::WithinLimit,
        Charge::Refused => return own::ask(visit),
        Charge::Contended => Reason::Contended,
    };
    // Added and not exclusive-or'd, which would cancel out the time that both levels follow.
    if sample::is_due(visit.hash, cell.packets.load().wrapping_add(cell.second.load())) {
        sample::record(visit);
    }
    bucket
}

/// A rule that needs no state has decided. A refusal is noted.
#[inline(never)]
fn verdict(visit: &Visit, bucket: Option<&Tracked>, reason: Reason) -> Reason {
    if let Some(bucket) = bucket {
        if reason.passes() {
            bucket.count_passed(1, u64::from(visit.length()));
        } else {
            bucket.count_dropped(DROP, 1, u64::from(visit.length()));
        }
    }
    if front::is_on() && !reason.passes() {
        notes::settle(visit, tracking::find(&visit.source));
        notes::write_all(visit, reason);
    }
    reason
}
