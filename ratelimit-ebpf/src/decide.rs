//! Decides about a packet. This is the one function between parsing and acting.

mod find;
mod peer;

use aya_ebpf::programs::XdpContext;
use ratelimit_common::{
    limits::policy::{self, DROP, Policy, SHADOW},
    maps::control::Control,
    reason::Reason,
};

use crate::{
    bpf::{clock::Clock, settings},
    cells::{
        caching, learned_rate,
        unknown_sources::{self, Admission},
    },
    connections::spare::{self, Answer},
    limits::source_limits::{self, Cells},
    maps::{buckets::Bucket, cells::Cell, levels, rules::lists},
    overlimit::overrun,
    packet::context::{Context, NOT_OWN, Unknown, Verdict},
    parse::outcome::Parsed,
    proofs::{self, ask::Proof},
    rules::cost,
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
    let Some(control) = crate::maps::control::get() else { return Reason::NoState.into() };
    let now = Clock::coarse(control).now();
    let mut context = Context::new(source, transport, now, [length, cost::of(classes)], interface);
    let found = match settings::has_cells() {
        true => find::with_cells(&mut context, control, classes),
        false => find::without_cells(&mut context, control, classes),
    };
    match found {
        Ok((cells, bucket)) => by_policy::<FRAGS>(ctx, &mut context, control, cells, bucket),
        // A ban or a cached refusal that does not hold for own connections.
        Err(verdict) if !context.reason.passes() => {
            let is_cached = context.own() != NOT_OWN;
            let is_spared = spare::ask::<FRAGS>(ctx, &mut context, control) == Answer::Spared;
            if settings::has_cells() && settings::spares_own() && is_cached {
                peer::count(&context, is_spared);
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
    if settings::limits_unknown()
        && let Some([cell, _]) = cells
    {
        match unknown_sources::admit(control, cell, context.hash, context.tick) {
            Admission::Known => {}
            Admission::WithinRate => context.note_unknown(Unknown::WithinRate),
            Admission::OverRate => match proofs::ask::ask::<FRAGS>(ctx, context) {
                Proof::Proven => {}
                Proof::Nothing if spare::ask::<FRAGS>(ctx, context, control) == Answer::Spared => {
                    return Reason::OwnConnection.into();
                }
                Proof::FirstSyn => context.note_unknown(Unknown::FirstSyn),
                Proof::Refused | Proof::Nothing => return learned_rate::refused(Reason::OverUnknown).into(),
            },
        }
    }
    let cells = match cells {
        Some([cell, refusals]) => match policy.lane() {
            lane if settings::has_lanes() && lane != 0 => match levels::in_lane(lane, context.hash) {
                Some(levels) => Some(Cells { cell, levels, refusals }),
                None => return Reason::NoState.into(),
            },
            _ => Some(Cells { cell, levels: &cell.levels, refusals }),
        },
        None => None,
    };
    let bucket = source_limits::ask(context, control, policy, cells, bucket);
    let reason = match context.reason.passes() {
        true => context.reason,
        false => overrun::settle::<FRAGS>(ctx, context, control, policy, cells, bucket),
    };
    let action = if settings::is_on(&settings::ACTIONS_ON) { policy.over_limit } else { DROP };
    if settings::limits_unknown() {
        let passes = reason.passes() || action == SHADOW;
        if context.is_unknown(Unknown::WithinRate) {
            unknown_sources::settle(context.hash, context.tick, passes);
        } else if settings::proves_tcp() && passes && context.is_unknown(Unknown::FirstSyn) {
            // The answer goes to an address that may be forged, so the limits of this address came first.
            let is_answered = proofs::ask::answers::<FRAGS>(ctx, context);
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
        caching::cache_verdict(context, refusals, reason, list);
    }
    reason
}
