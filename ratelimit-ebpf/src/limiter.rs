//! Judges a packet: the one function between parsing and acting.

use ratelimit_common::{
    bucket::Resolution,
    class::Classes,
    note::LONGEST,
    policy::{self, COARSE, DROP, Policy},
    reason::Reason,
    rule::NEVER,
    source::Source,
};

use crate::{
    algorithm,
    charge::Charge,
    clock::Clock,
    cost, front, identity, levels,
    maps::{CONTROL, RULE_FILTER},
    notes::{self, Cause},
    overrun, own, parents, rules, sample, settings, strangers, tracking,
    verdict::Verdict,
    visit::Visit,
};

/// What becomes of a packet of `length` bytes from `address`, and why, that belongs to these services and came in by this interface.
#[inline(always)]
#[must_use]
pub fn judge(address: Source, classes: Classes, length: u32, interface: u32) -> Verdict {
    let Some(control) = CONTROL.get(0) else { return Reason::NoState.into() };
    let now = Clock::coarse(control).now();
    let mut visit = Visit::new(address, control, now, [length, cost::of(classes)], interface);
    let outcome = if front::is_on() { behind_cells(&mut visit, classes) } else { without_cells(&mut visit, classes) };
    match outcome {
        Ok(()) => decide(&mut visit),
        Err(verdict) => verdict,
    }
}

/// Without cells every source has its own bucket, which remembers its policy.
#[inline(always)]
fn without_cells(visit: &mut Visit<'_>, classes: Classes) -> Result<(), Verdict> {
    identity::identify(&mut visit.source, classes, visit.control, visit.now, true);
    (visit.bucket, visit.resolution) = tracking::track(&mut visit.source, classes, visit.control, visit.now)?;
    Ok(())
}

/// With cells only sources that a rule may concern are looked up.
///
/// # Errors
///
/// What decides at once: a cell's note.
#[inline(always)]
fn behind_cells(visit: &mut Visit<'_>, classes: Classes) -> Result<(), Verdict> {
    let (control, now, length) = (visit.control, visit.now, visit.length());
    // Read before the rules: where one changes meanwhile, what is noted is stale, never wrong.
    let generation = rules::generation(control);
    let is_concerned = RULE_FILTER.get(0).is_none_or(|filter| filter.concerns(&visit.source));
    identity::identify(&mut visit.source, classes, control, now, is_concerned);
    if !is_concerned {
        let (class, policy) = rules::default(classes);
        visit.source.class = u16::from(class);
        visit.resolution = Resolution::new(generation, policy, NEVER);
    }
    visit.note_hash = visit.source.hash(&control.seed);
    let cell = front::cell(visit.note_hash).ok_or(Reason::NoState)?;
    if let Some(verdict) = cell.refusal(visit) {
        return Err(verdict);
    }
    visit.hash = visit.note_hash;
    if is_concerned {
        visit.resolution = tracking::resolution(&mut visit.source, classes, control, now, length);
        if settings::is_on(&settings::SERVICES_ON) {
            visit.hash = visit.source.hash(&control.seed);
        }
    }
    Ok(())
}

/// What the policy says.
#[inline(always)]
fn decide(visit: &mut Visit<'_>) -> Verdict {
    let Some(policy) = visit.policy() else { return Reason::NoState.into() };
    match policy.kind {
        policy::LIMIT => {}
        policy::ALLOW => return verdict(visit, Reason::Allowed).into(),
        policy::DENY => return verdict(visit, Reason::Denied).into(),
        policy::BAN => return verdict(visit, Reason::Banned).into(),
        _ => return Reason::NoState.into(),
    }
    if strangers::are_limited() && !strangers::admit(visit.control, visit.hash, visit.now) {
        return Reason::OverStrangers.into();
    }
    let reason = limit(visit, policy);
    if reason.passes() {
        return reason.into();
    }
    let action = if settings::is_on(&settings::ACTIONS_ON) { policy.over_limit } else { DROP };
    Verdict { reason: overrun::settle(visit, reason), action }
}

/// What the limits of a policy say.
#[inline(always)]
fn limit(visit: &mut Visit<'_>, policy: &Policy) -> Reason {
    let has_parents = settings::is_on(&settings::PARENTS_ON) && policy.has_parents();
    if !policy.has_limits() && !has_parents {
        return sample::observe(visit);
    }
    if policy.flags & COARSE == 0 {
        visit.now = Clock::read(visit.control).now();
    }
    if has_parents {
        return parents::ask(visit);
    }
    if algorithm::are_others_on() && !policy.is_bucket() {
        return algorithm::ask(visit);
    }
    if !front::is_on() {
        let Some(bucket) = visit.bucket else { return Reason::TableFull };
        let reason = bucket.ask(policy, &visit.clock(), visit.amounts(policy));
        if reason.passes() {
            bucket.count_passed(1, u64::from(visit.length()));
        }
        return reason;
    }
    let Some(cell) = front::cell(visit.hash) else { return Reason::NoState };
    match levels::ask(cell, policy, &visit.clock(), visit.amounts(policy)) {
        Charge::Paid => {
            // Added and not exclusive-or'd, which would cancel out the time that both levels follow.
            if sample::is_due(visit.hash, cell.packets.load().wrapping_add(cell.second.load())) {
                sample::record(visit);
            }
            Reason::WithinLimit
        }
        Charge::Refused => own::ask(visit),
        Charge::Contended => Reason::Contended,
    }
}

/// A rule that needs no state has decided. A refusal is noted.
#[inline(never)]
fn verdict(visit: &Visit<'_>, reason: Reason) -> Reason {
    if let Some(bucket) = visit.bucket {
        if reason.passes() {
            bucket.count_passed(1, u64::from(visit.length()));
        } else {
            bucket.count_dropped(DROP, 1, u64::from(visit.length()));
        }
    }
    if front::is_on() && !reason.passes() {
        notes::settle(visit, tracking::find(&visit.source));
        notes::write(visit, LONGEST, Cause { precise: false, reason, action: DROP, amount: 0 });
    }
    reason
}
