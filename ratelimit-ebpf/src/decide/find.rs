//! Finds the policy of a packet's source, with its cells and its bucket. A cached refusal ends the search.

use ratelimit_common::{
    buckets::bucket::Resolution, identity::class::Classes, maps::control::Control, reason::Reason, rules::rule::NEVER,
};

use crate::{
    bpf::{control, settings},
    cells::cached_refusal,
    maps::{
        buckets::Bucket,
        cells::{self, Cell},
        rules,
    },
    meters::sliding_log,
    packet::context::{Context, Verdict},
    rules::{
        ban_lookup::{self, Banned},
        cache, changed, lookup, source_key,
    },
};

/// Everything that is known before the policy applies: the cells of the billed source and of its cached refusal, and the
/// bucket.
pub(super) type Found = (Option<[&'static Cell; 2]>, Option<&'static Bucket>);

/// Finds the policy of a source without cells. Every source has its own bucket, which caches the policy.
#[inline(always)]
pub(super) fn without_cells(context: &mut Context, control: &Control, classes: Classes) -> Result<Found, Verdict> {
    if settings::has_sliding_logs() && !rules::may_match(&context.source) {
        // Such a source needs only its sliding log.
        let generation = control::generation(control);
        source_key::identify(&mut context.source, classes, control, context.now, false);
        let (class, policy) = lookup::default(classes);
        let source = context.source.of_class(class);
        if rules::policy(policy).is_some_and(sliding_log::is_kept_by)
            && ban_lookup::find(&source, source.hash(&control.seed), classes, control, context.now) == Banned::No
        {
            context.source.class = u16::from(class);
            context.resolution = Resolution::new(generation, policy, NEVER);
            return Ok((None, None));
        }
    }
    changed::begin(&context.source, control);
    source_key::identify(&mut context.source, classes, control, context.now, true);
    let (mut bucket, resolution) = cache::track(&mut context.source, classes, control, context.now)?;
    context.resolution = resolution;
    if changed::follow(context, classes, control) {
        bucket = None;
    }
    Ok((None, bucket))
}

/// Finds the policy of a source behind cells. Only sources that a rule may match are looked up.
///
/// # Errors
///
/// Returns the verdict of a cached refusal.
#[inline(always)]
pub(super) fn with_cells(context: &mut Context, control: &Control, classes: Classes) -> Result<Found, Verdict> {
    let now = context.now;
    // Read before the rules: if one changes meanwhile, a cached refusal is stale, never wrong.
    let generation = control::generation(control);
    let may_match = rules::may_match(&context.source);
    if may_match {
        changed::begin(&context.source, control);
    }
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
    let mut cell = refusals;
    let mut bucket;
    if may_match {
        bucket = cache::resolve(context, classes, control);
        if changed::follow(context, classes, control) {
            bucket = None;
        }
        if settings::has_services() {
            context.hash = context.source.hash(&control.seed);
            cell = cells::get(context.hash).ok_or(Reason::NoState)?;
        }
    } else {
        bucket = ban_lookup::ask(context, classes, control)?;
    }
    Ok((Some([cell, refusals]), bucket))
}

/// An odd number with bits all over, so that each interface changes the upper bits of a hash.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bits of a hash that may select the cell.
const CELL_BITS: u32 = 22;

/// Returns the hash that a cached refusal has. A parent may count the packets of one interface, so a refusal then holds
/// for that interface only. The lower bits select the cell, and do not change.
#[inline(always)]
fn refusal_hash(hash: u64, interface: u32) -> u64 {
    match settings::is_on(&settings::PARENTS_ON) && settings::is_on(&settings::INTERFACES_ON) {
        true => hash ^ u64::from(interface).wrapping_mul(SPREAD) << CELL_BITS,
        false => hash,
    }
}
