//! Asks all limits that a source's policy has: its lease, its parents, its cell, its own bucket, window or log.

use ratelimit_common::{
    limits::policy::Policy,
    maps::control::Control,
    meters::{gcra, stages::Part},
    reason::Reason,
};

use crate::{
    bpf::{
        settings,
        verifier::{given, key},
    },
    buckets::{create, start},
    limits::{
        parents, source_bucket,
        stages::{charge_levels, clear, give_back, record_states},
    },
    maps::{
        buckets::{self, Bucket},
        cells::{self, Cell, Levels},
        exchange::Charge,
        sliding_logs,
        this_cpu::OWN,
    },
    meters::{sliding_log, token_bucket, window},
    packet::context::Context,
    shares::lease,
    telemetry,
};

/// What a packet found in front of the buckets.
#[derive(Clone, Copy)]
pub struct Cells {
    /// Cell of the billed source.
    pub cell: &'static Cell,
    /// Levels that the packet charges.
    pub levels: &'static Levels,
    /// Cell that holds the source's cached refusal. It differs if the packet's narrowest service is not the billed one.
    pub refusals: &'static Cell,
}

/// Writes the reason that the lease and the limits of a policy give into the context. Returns the source's bucket, if the
/// limits needed one. `cells` are there if cells are on.
#[inline(always)]
#[must_use]
pub fn ask(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    cells: Option<Cells>,
    bucket: Option<&'static Bucket>,
) -> Option<&'static Bucket> {
    // Most cells tell that none of their sources has a lease.
    let may_have_lease = || !settings::has_cells() || cells.is_some_and(|cells| cells.cell.is_leased());
    if settings::has_leases() && may_have_lease() && lease::refuses(context, control, policy) {
        context.reason = Reason::OverShare;
        return bucket;
    }
    let bucket = ask_with_parents(context, control, policy, cells, bucket);
    if settings::has_leases() && context.has_share() && lease::refuses_at_last(context, control) {
        context.reason = Reason::OverShare;
    }
    bucket
}

/// Checks the parents, asks the source's own limits, and charges the parents.
#[inline(always)]
fn ask_with_parents(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    cells: Option<Cells>,
    bucket: Option<&'static Bucket>,
) -> Option<&'static Bucket> {
    let has_parents = settings::is_on(&settings::PARENTS_ON) && policy.has_parents();
    if has_parents {
        context.set_clock(control, policy);
        context.reason = parents::check(context, control, policy);
        if !context.reason.passes() {
            return bucket;
        }
        clear(OWN);
    }
    let bucket = ask_own(context, control, policy, cells, bucket);
    if has_parents && context.reason.passes() {
        let by_parents = parents::charge(context, control, policy);
        if !by_parents.passes() {
            give_back(OWN, cells.map(|cells| cells.levels), bucket);
        }
        if by_parents != Reason::WithinLimit {
            context.reason = by_parents;
        }
    }
    bucket
}

/// Writes the reason that the source's own limits give into the context.
#[inline(always)]
fn ask_own(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    cells: Option<Cells>,
    bucket: Option<&'static Bucket>,
) -> Option<&'static Bucket> {
    if (settings::is_on(&settings::WINDOWS_ON) || settings::has_sliding_logs()) && !policy.is_bucket() {
        context.set_clock(control, policy);
        return ask_window(context, control, policy, bucket);
    }
    if !policy.packets.is_on() && !policy.second.is_on() {
        telemetry::count_unlimited(context, control);
        return bucket;
    }
    context.set_clock(control, policy);
    let (clock, amounts) = (context.clock(control), context.amounts(policy));
    let Some(cells) = cells.filter(|_| settings::has_cells()) else {
        context.reason = Reason::TableFull;
        let bucket = bucket?;
        let outcome = token_bucket::ask(bucket, policy, &clock, amounts);
        if settings::is_on(&settings::PARENTS_ON)
            && let Ok(states) = outcome
        {
            record_states(OWN, policy, amounts, states);
        }
        context.reason = outcome.err().unwrap_or(Reason::WithinLimit);
        count_passed(bucket, context);
        return Some(bucket);
    };
    let is_spent = settings::divides_bursts() && start::is_spent(context, control, cells.levels);
    let charge = match is_spent {
        true => Charge::Refused,
        false => charge_levels(cells.levels, policy, &clock, context, Part::Share),
    };
    if charge == Charge::Refused {
        let bucket = source_bucket::ask(context, control, policy, cells.levels, bucket);
        if bucket.is_none() && context.reason == Reason::WithinLimit {
            let is_paid = charge_whole_burst(context, control, cells.levels);
            context.reason = if is_paid { Reason::WithinLimit } else { Reason::NotAdmitted };
        }
        return bucket;
    }
    context.reason = Reason::WithinLimit;
    let Levels { packets, second } = cells.levels;
    // Added and not exclusive-or'd, which would cancel out the time that both levels follow.
    if telemetry::is_sample_due(context.hash, packets.load().wrapping_add(second.load())) {
        telemetry::record_sample(context, control);
    }
    bucket
}

/// Charges the levels with the whole burst, while the budget admits no bucket for a source that has none.
///
/// A level counts all that a source was admitted, and a new bucket would owe what it shows above the cell's share. So
/// the cell decides as cell and bucket would. A flood that spends the budget takes nothing from a source that is alone
/// in its cell.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_whole_burst(context: *const Context, control: *const Control, levels: *const Levels) -> bool {
    if !settings::has_cells() {
        return false;
    }
    let (Some(context), Some(control), Some(levels)) = (given(context), given(control), given(levels)) else {
        return false;
    };
    let Some(policy) = context.policy() else { return false };
    // Where hosts of a fleet divide the burst, the cell had the part of this one already.
    if settings::divides_bursts() && start::is_divided(context, control) {
        return false;
    }
    // Another CPU that has created the bucket meanwhile may not have seen this charge. So the packet is refused then, and
    // what it has charged only refuses more.
    charge_levels(levels, policy, &context.clock(control), context, Part::Whole) == Charge::Paid
        && buckets::find(&key(&context.source)).is_none()
}

/// Asks a window or a sliding log. Without cells, an existing bucket or log is asked without a call.
#[inline(always)]
fn ask_window(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    bucket: Option<&'static Bucket>,
) -> Option<&'static Bucket> {
    let (bucket, reason) = match (settings::has_cells(), sliding_log::is_kept_by(policy), bucket) {
        (false, true, _) => match sliding_logs::find(&context.source) {
            Some(log) => (&log.bucket, sliding_log::ask(log, policy, context.now)),
            None => return ask_new_window(context, control, policy),
        },
        (false, false, Some(bucket)) => (bucket, window::ask(bucket, policy, context.now, context.amounts(policy))),
        _ => return ask_new_window(context, control, policy),
    };
    context.reason = reason;
    count_passed(bucket, context);
    Some(bucket)
}

/// Asks a window or a sliding log. Creates the source's bucket or log if there is none.
#[inline(never)]
fn ask_new_window(context: &mut Context, control: &Control, policy: &Policy) -> Option<&'static Bucket> {
    let outcome = if sliding_log::is_kept_by(policy) {
        create::sliding_log(&context.source, policy, control, context.tick)
            .map(|log| (&log.bucket, sliding_log::ask(log, policy, context.now)))
    } else {
        // A state that owes nothing to a token bucket, and counts nothing for a window.
        let state = gcra::units(context.tick);
        create::bucket(&context.source, policy, state, context.resolution, control, context.tick)
            .map(|bucket| (bucket, window::ask(bucket, policy, context.now, context.amounts(policy))))
    };
    let (bucket, reason) = match outcome {
        Ok((bucket, reason)) => (Some(bucket), reason),
        Err(reason) => (None, reason),
    };
    context.reason = reason;
    if settings::has_cells() && bucket.is_some() {
        // The next limit may need the bucket.
        cells::note_used_bucket(context.hash);
    }
    if let Some(bucket) = bucket.filter(|_| reason.passes()) {
        bucket.counts.count_passed(context.tick, 1, u64::from(context.length()));
    }
    bucket
}

/// Counts a packet that passes in the source's bucket.
#[inline(always)]
fn count_passed(bucket: &Bucket, context: &Context) {
    if context.reason.passes() {
        bucket.counts.count_passed(context.tick, 1, u64::from(context.length()));
    }
}
