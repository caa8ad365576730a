//! Decides about a packet. This is the one function between parsing and acting.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{class::Classes, source::Source},
    limits::policy::{self, DROP},
    maps::control::Control,
    reason::Reason,
    rules::rule::NEVER,
};

use crate::{
    bpf::{clock::Clock, control, settings},
    cells::{cached_refusal, caching, dropped, unknown_sources},
    limits::{ask, cells::Cells},
    maps::{
        buckets::Bucket,
        cells::{self, Cell},
        levels, rules,
    },
    meters::sliding_log,
    overlimit::overrun,
    packet::{context::Context, verdict::Verdict},
    rules::{cache, cost, lookup, source_key},
};

/// Everything that the stages before the policy found: the cells of the billed source and of its cached refusal, and the
/// bucket.
type Found = (Option<[&'static Cell; 2]>, Option<&'static Bucket>);

/// Returns the verdict on a packet of `length` bytes from `address`, with these services and this interface.
#[inline(always)]
#[must_use]
pub fn decide(address: Source, classes: Classes, length: u32, interface: u32) -> Verdict {
    let Some(control) = crate::maps::control::get() else { return Reason::NoState.into() };
    let now = Clock::coarse(control).now();
    let mut context = Context::new(address, now, [length, cost::of(classes)], interface);
    let found = match settings::has_cells() {
        true => with_cells(&mut context, control, classes),
        false => without_cells(&mut context, control, classes),
    };
    match found {
        Ok((cells, bucket)) => by_policy(&mut context, control, cells, bucket),
        Err(verdict) => verdict,
    }
}

/// Finds the policy of a source without cells. Every source has its own bucket, which caches the policy.
#[inline(always)]
fn without_cells(context: &mut Context, control: &Control, classes: Classes) -> Result<Found, Verdict> {
    if settings::has_sliding_logs() && !rules::may_match(&context.source) {
        // Such a source needs only its sliding log.
        let generation = control::generation(control);
        source_key::identify(&mut context.source, classes, control, context.now, false);
        let (class, policy) = lookup::default(classes);
        if rules::policy(policy).is_some_and(sliding_log::is_kept_by) {
            context.source.class = u16::from(class);
            context.resolution = Resolution::new(generation, policy, NEVER);
            return Ok((None, None));
        }
    }
    source_key::identify(&mut context.source, classes, control, context.now, true);
    let (bucket, resolution) = cache::track(&mut context.source, classes, control, context.now)?;
    context.resolution = resolution;
    Ok((None, bucket))
}

/// Finds the policy of a source behind cells. Only sources that a rule may match are looked up.
///
/// # Errors
///
/// Returns the verdict of a cached refusal.
#[inline(always)]
fn with_cells(context: &mut Context, control: &Control, classes: Classes) -> Result<Found, Verdict> {
    let now = context.now;
    // Read before the rules: if one changes meanwhile, a cached refusal is stale, never wrong.
    let generation = control::generation(control);
    let may_match = rules::may_match(&context.source);
    source_key::identify(&mut context.source, classes, control, now, may_match);
    if !may_match {
        let (class, policy) = lookup::default(classes);
        context.source.class = u16::from(class);
        context.resolution = Resolution::new(generation, policy, NEVER);
    }
    context.hash = context.source.hash(&control.seed);
    context.refusal_hash = refusal_hash(context.hash, context.interface);
    let refusals = cells::get(context.hash).ok_or(Reason::NoState)?;
    if let Some(verdict) = cached_refusal::repeat(refusals, context, control) {
        return Err(verdict);
    }
    let (mut cell, mut bucket) = (refusals, None);
    if may_match {
        bucket = cache::resolve(context, classes, control);
        if settings::has_services() {
            context.hash = context.source.hash(&control.seed);
            cell = cells::get(context.hash).ok_or(Reason::NoState)?;
        }
    }
    Ok((Some([cell, refusals]), bucket))
}

/// Returns the hash that a cached refusal has. A parent may count the packets of one interface, so a refusal then holds
/// for that interface only. The lower bits select the cell, and do not change.
#[inline(always)]
fn refusal_hash(hash: u64, interface: u32) -> u64 {
    match settings::is_on(&settings::PARENTS_ON) && settings::is_on(&settings::INTERFACES_ON) {
        true => hash ^ u64::from(interface).rotate_right(16),
        false => hash,
    }
}

/// Applies the policy. `bucket` is the source's own, if it was found before.
#[inline(always)]
fn by_policy(
    context: &mut Context,
    control: &Control,
    cells: Option<[&'static Cell; 2]>,
    bucket: Option<&'static Bucket>,
) -> Verdict {
    let Some(policy) = context.policy() else { return Reason::NoState.into() };
    match policy.kind {
        policy::LIMIT => {}
        policy::ALLOW => return by_rule(context, cells, bucket, Reason::Allowed).into(),
        policy::DENY => return by_rule(context, cells, bucket, Reason::Denied).into(),
        policy::BAN => return by_rule(context, cells, bucket, Reason::Banned).into(),
        _ => return Reason::NoState.into(),
    }
    if settings::limits_unknown()
        && let Some([cell, _]) = cells
        && !unknown_sources::admit(control, cell, context.hash, context.now)
    {
        return Reason::OverUnknown.into();
    }
    let cells = match cells {
        Some([cell, refusals]) => match policy.lane() {
            lane if settings::has_lanes() && lane != 0 => match levels::in_lane(lane, context.hash) {
                Some(levels) => Some(Cells { levels, refusals }),
                None => return Reason::NoState.into(),
            },
            _ => Some(Cells { levels: &cell.levels, refusals }),
        },
        None => None,
    };
    let bucket = ask::ask(context, control, policy, cells, bucket);
    let reason =
        if context.reason.passes() { context.reason } else { overrun::settle(context, control, policy, cells, bucket) };
    Verdict { reason, action: if settings::is_on(&settings::ACTIONS_ON) { policy.over_limit } else { DROP } }
}

/// Applies a rule that needs no state, and caches a refusal.
#[inline(never)]
fn by_rule(context: &Context, cells: Option<[&Cell; 2]>, bucket: Option<&Bucket>, reason: Reason) -> Reason {
    if let Some(bucket) = bucket {
        if reason.passes() {
            bucket.counts.count_passed(1, u64::from(context.length()));
        } else {
            bucket.counts.count_dropped(DROP, 1, u64::from(context.length()));
        }
    }
    if let Some([_, refusals]) = cells.filter(|_| settings::has_cells() && !reason.passes()) {
        dropped::settle(Some(refusals), context.refusal_hash, bucket);
        caching::cache_verdict(context, refusals, reason);
    }
    reason
}
