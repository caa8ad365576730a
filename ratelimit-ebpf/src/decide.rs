//! Decides about a packet between parsing and acting, in the steps of the packet path in ARCHITECTURE.md. The entry points
//! do the first step and the last.

use aya_ebpf::programs::XdpContext;
use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::class::Classes,
    limits::policy::{self, DROP, Policy, SHADOW},
    maps::control::Control,
    reason::Reason,
    rules::rule::NEVER,
};

use crate::{
    bpf::{clock::Clock, settings},
    cells::{
        cached_refusal, learned_rate,
        unknown_sources::{self, Admission},
    },
    connections::spare::{self, Answer},
    limits::source_limits::{self, Cells},
    maps::{
        buckets::{self, Bucket},
        cells::{self, Cell},
        control,
        rules::{self, lists},
    },
    meters::sliding_log,
    overlimit::overrun,
    packet::context::{Context, NOT_OWN, Unknown, Verdict},
    parse::outcome::Parsed,
    proofs::proof::{self, Proof},
    rules::{
        ban_lookup::{self, Banned},
        cache, identify,
    },
};

/// Returns the verdict on a packet of `length` bytes.
#[inline(always)]
#[must_use]
pub fn decide<const FRAGS: bool>(
    ctx: &XdpContext,
    Parsed { source, classes, transport }: Parsed,
    length: u32,
    interface: u32,
) -> Verdict {
    let Some(control) = control::get() else { return Reason::NoState.into() };
    let now = Clock::coarse(control).now();
    let mut context = Context::new(source, transport, now, [length, identify::cost(classes)], interface);
    // Steps 2 to 4: identify, cell, rule.
    let found = match settings::has_cells() {
        true => with_cells(&mut context, control, classes),
        false => without_cells(&mut context, control, classes),
    };
    match found {
        Ok((cells, bucket)) => by_policy::<FRAGS>(ctx, &mut context, control, cells, bucket),
        // A ban or a cached refusal that does not hold for own connections.
        Err(verdict) if !context.reason.passes() => {
            let is_cached = context.own() != NOT_OWN;
            let is_spared = spare::ask::<FRAGS>(ctx, &mut context, control) == Answer::Spared;
            if settings::has_cells() && settings::spares_own() && is_cached {
                count_of_a_peer(&context, is_spared);
            }
            if is_spared { Reason::OwnConnection.into() } else { verdict }
        }
        Err(verdict) => verdict,
    }
}

/// Applies the policy. `bucket` is the source's own, if it was found before.
#[inline(always)]
fn by_policy<const FRAGS: bool>(
    ctx: &XdpContext,
    context: &mut Context,
    control: &Control,
    cells: Option<[&'static Cell; 2]>,
    bucket: Option<&'static Bucket>,
) -> Verdict {
    let Some(policy) = context.policy() else { return Reason::NoState.into() };
    // Step 4: rules without a limit.
    match policy.kind {
        policy::LIMIT => {}
        policy::ALLOW => return by_rule(context, cells, bucket, Reason::Allowed).into(),
        policy::DENY => return by_rule(context, cells, bucket, Reason::Denied).into(),
        policy::BAN | policy::LISTED => {
            let refusal = if policy.kind == policy::BAN { Reason::Banned } else { Reason::Listed };
            let reason = match spare::ask::<FRAGS>(ctx, context, control) {
                Answer::Spared => Reason::OwnConnection,
                Answer::OverRate | Answer::NotOwn => refusal,
            };
            return by_rule(context, cells, bucket, reason).into();
        }
        _ => return Reason::NoState.into(),
    }
    // Step 5: unknown sources.
    if settings::limits_unknown()
        && let Some([cell, _]) = cells
    {
        match unknown_sources::admit(control, cell, context.hash, context.tick) {
            Admission::Known => {}
            Admission::WithinRate => context.note_unknown(Unknown::WithinRate),
            Admission::OverRate => match proof::ask::<FRAGS>(ctx, context) {
                Proof::Proven => {}
                Proof::Nothing if spare::ask::<FRAGS>(ctx, context, control) == Answer::Spared => {
                    return Reason::OwnConnection.into();
                }
                Proof::FirstSyn => context.note_unknown(Unknown::FirstSyn),
                Proof::Refused | Proof::Nothing => return learned_rate::refused(Reason::OverUnknown).into(),
            },
        }
    }
    // Steps 6 and 7: limits, and the admission of a bucket.
    let cells = match cells {
        Some([cell, refusals]) => match policy.lane() {
            lane if settings::has_lanes() && lane != 0 => match cells::in_lane(lane, context.hash) {
                Some(levels) => Some(Cells { cell, levels, refusals }),
                None => return Reason::NoState.into(),
            },
            _ => Some(Cells { cell, levels: &cell.levels, refusals }),
        },
        None => None,
    };
    let bucket = source_limits::ask(context, control, policy, cells, bucket);
    // Step 8: over the limit.
    let reason = match context.reason.passes() {
        true => context.reason,
        false => overrun::settle::<FRAGS>(ctx, context, control, policy, cells, bucket),
    };
    let action = if settings::is_on(&settings::ACTIONS_ON) { policy.over_limit } else { DROP };
    if settings::limits_unknown() {
        let passes = reason.passes() || action == SHADOW;
        if context.is_unknown(Unknown::WithinRate) {
            unknown_sources::note_outcome(context.hash, context.tick, passes);
        } else if settings::proves_tcp() && passes && context.is_unknown(Unknown::FirstSyn) {
            // The answer goes to an address that may be forged, so the limits of this address came first.
            let is_answered = proof::answers::<FRAGS>(ctx, context);
            return learned_rate::refused(if is_answered { Reason::SynCookie } else { Reason::OverUnknown }).into();
        }
    }
    Verdict { reason, action }
}

/// Applies a rule that needs no state, and caches a refusal.
#[inline(never)]
fn by_rule(context: &Context, cells: Option<[&Cell; 2]>, bucket: Option<&Bucket>, reason: Reason) -> Reason {
    if let Some(bucket) = bucket {
        if reason.passes() {
            bucket.counts.count_passed(context.tick, 1, u64::from(context.length()));
        } else {
            bucket.counts.count_refused(context.tick, DROP, 1, u64::from(context.length()));
        }
    }
    let mut list = 0;
    if settings::is_on(&settings::LISTS_ON) && reason == Reason::Listed {
        list = context.policy().map_or(0, Policy::list);
        lists::count_hit(list, context.length());
    }
    if let Some([_, refusals]) = cells.filter(|_| settings::has_cells() && !reason.passes()) {
        cached_refusal::cache_verdict(context, refusals, reason, list);
    }
    reason
}

/// Everything that is known before the policy applies: the cells of the billed source and of its cached refusal, and the
/// bucket.
type Found = (Option<[&'static Cell; 2]>, Option<&'static Bucket>);

/// Finds the policy of a source without cells. Every source has its own bucket, which caches the policy.
#[inline(always)]
fn without_cells(context: &mut Context, control: &Control, classes: Classes) -> Result<Found, Verdict> {
    if settings::has_sliding_logs() && !rules::may_match(&context.source) {
        // Such a source needs only its sliding log.
        let generation = control::generation(control);
        identify::source(&mut context.source, classes, control, context.now, false);
        let (class, policy) = identify::by_default(classes);
        let source = context.source.of_class(class);
        if rules::policy(policy).is_some_and(sliding_log::is_kept_by)
            && ban_lookup::find(&source, source.hash(&control.seed), classes, control, context.now) == Banned::No
        {
            context.source.class = u16::from(class);
            context.resolution = Resolution::new(generation, policy, NEVER);
            return Ok((None, None));
        }
    }
    identify::begin_search(&context.source, control);
    identify::source(&mut context.source, classes, control, context.now, true);
    let (mut bucket, resolution) = cache::track(&mut context.source, classes, control, context.now)?;
    context.resolution = resolution;
    if identify::follow_change(context, classes, control) {
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
fn with_cells(context: &mut Context, control: &Control, classes: Classes) -> Result<Found, Verdict> {
    let now = context.now;
    // Read before the rules: if one changes meanwhile, a cached refusal is stale, never wrong.
    let generation = control::generation(control);
    let may_match = rules::may_match(&context.source);
    if may_match {
        identify::begin_search(&context.source, control);
    }
    identify::source(&mut context.source, classes, control, now, may_match);
    if !may_match {
        let (class, policy) = identify::by_default(classes);
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
        if identify::follow_change(context, classes, control) {
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

/// Counts a packet of a source with own connections whose refusal is cached, in its bucket, as spared or as refused.
#[inline(never)]
fn count_of_a_peer(context: &Context, is_spared: bool) {
    if !is_spared {
        cached_refusal::count_later(context);
        return;
    }
    if let Some(bucket) = buckets::find(&buckets::billed(context.source)) {
        bucket.counts.count_passed(context.tick, 1, u64::from(context.length()));
    }
}
