//! A source's own bucket, for packets that do not fit its cell's share, and what its refusal means.

use ratelimit_common::{
    buckets::bucket::Resolution,
    limits::policy::{COARSE, Policy},
    maps::control::Control,
    meters::{
        gcra::{self, Units},
        meter::Meter,
        stages::Part,
        state,
    },
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings},
    buckets::{create, start},
    limits::stages::{Pair, have_room},
    maps::{
        buckets::{self, Bucket},
        cells::{self, Levels},
        exchange::Charge,
        this_cpu::{self, OWN},
    },
    meters::{sliding_log, window},
    packet::context::Context,
};

/// Writes the reason that the source's own bucket gives into the context. Creates the bucket if there is none.
/// `at_hand` is the bucket, if it was found before.
///
/// [`Reason::WithinLimit`] without a bucket means that the budget admits none, and the cell has room for the whole burst.
#[inline(never)]
#[must_use]
pub fn ask(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    levels: &Levels,
    at_hand: Option<&'static Bucket>,
) -> Option<&'static Bucket> {
    let clock = context.clock(control);
    let mut found = at_hand;
    let may_be_there = at_hand.is_some() || cells::may_have_bucket(context.hash);
    if found.is_none() && may_be_there {
        found = buckets::find(&context.source);
    }
    if found.is_none() {
        let is_admitted = create::admits(control, policy, context.tick);
        if !is_admitted && !have_room(levels, policy, &clock, context.amounts(policy), Part::Whole) {
            context.reason = Reason::NotAdmitted;
            return None;
        }
        if !may_be_there {
            // The bucket may be one that was not used for long.
            found = buckets::find(&context.source);
        }
        if found.is_none() && !is_admitted {
            context.reason = Reason::WithinLimit;
            return None;
        }
    }
    if found.is_none() {
        context.reason = Reason::TableFull;
        create::from_levels(&context.source, levels, policy, Resolution::NEW, &clock);
        if settings::divides_bursts() {
            start::spend(&context.source, context.hash, context.resolution.0, context.tick);
        }
        let bucket = buckets::find(&context.source)?;
        let passed =
            if policy.ban.time == 0 { passed_before(policy, levels, &clock, context.amounts(policy)) } else { 0 };
        bucket.counts.count_passed(context.tick, passed, passed.wrapping_mul(u64::from(context.length())));
        found = Some(bucket);
    }
    let bucket = found?;
    cells::note_used_bucket(context.hash);
    if !create::follow(&context.source, bucket, context.hash, context.resolution, control) {
        context.reason = Reason::NotAdmitted;
        return None;
    }
    context.reason = decide(context.amounts(policy), &clock, policy, levels, bucket);
    if context.reason.passes() {
        bucket.counts.count_passed(context.tick, 1, u64::from(context.length()));
    }
    Some(bucket)
}

/// Returns the number of packets like this one that the cell has admitted recently, from its debt. The number is exact
/// for a new source that is alone in its cell. Debt above the share belongs to others, or was counted before.
#[inline(always)]
fn passed_before(policy: &Policy, levels: &Levels, clock: &Clock<'_>, [one, amount]: [u32; 2]) -> u64 {
    let (debt, share, cost) = match policy.packets.is_on() {
        true => (cells::debt(&levels.packets, clock), policy.packets.cell_share, policy.packets.cost_of(one)),
        false => (cells::debt(&levels.second, clock), policy.second.cell_share, policy.second.cost_of(amount)),
    };
    if debt > share {
        return 0;
    }
    // Rounded up: some of the first packet's cost has drained by now.
    debt.saturating_add(cost.saturating_sub(1)).checked_div(cost).unwrap_or(0)
}

/// Checks and charges both limits in both stages. Both limits are checked before either is charged.
#[inline(always)]
fn decide([one, amount]: [u32; 2], clock: &Clock<'_>, policy: &Policy, levels: &Levels, bucket: &Bucket) -> Reason {
    let (packets, second) = (&policy.packets, &policy.second);
    let by_packets = Pair::new(&levels.packets, &bucket.packets, packets);
    let by_second = Pair::new(&levels.second, &bucket.second, second);
    let Some([for_packets, for_second]) = this_cpu::payments(OWN) else { return Reason::NoState };
    let is_coarse = policy.flags & COARSE != 0;
    for_packets.begin(packets, one, clock, is_coarse);
    for_second.begin(second, amount, clock, is_coarse);
    if packets.is_on() != second.is_on() {
        // If this fails, the cell has room left, a debt must be cut, or other CPUs were first. The next steps tell.
        let outcome = match packets.is_on() {
            true => by_packets.pay_rest(for_packets),
            false => by_second.pay_rest(for_second),
        };
        if outcome == Charge::Paid {
            return Reason::WithinLimit;
        }
    }
    if second.is_on() && by_second.refuses(for_second, clock) {
        return policy.second_reason();
    }
    if packets.is_on() && by_packets.refuses(for_packets, clock) {
        return Reason::OverPackets;
    }
    if packets.is_on() && by_packets.pay(for_packets) == Charge::Refused {
        return Reason::OverPackets;
    }
    if second.is_on() && by_second.pay(for_second) == Charge::Refused {
        if packets.is_on() {
            by_packets.refund(for_packets);
        }
        return policy.second_reason();
    }
    Reason::WithinLimit
}

/// Returns the time for which packets like this one are still refused. `levels` are those that it charges.
#[inline(always)]
#[must_use]
pub fn wait(context: &Context, policy: &Policy, bucket: &Bucket, levels: &Levels, clock: &Clock<'_>) -> Units {
    let amounts = context.amounts_refused(policy);
    if policy.is_bucket() {
        // A source that one limit refuses may be refused by the other as well. A limit that does not refuse has no
        // wait.
        let first = Pair::new(&levels.packets, &bucket.packets, &policy.packets).wait(amounts[0], clock);
        return first.max(Pair::new(&levels.second, &bucket.second, &policy.second).wait(amounts[1], clock));
    }
    let nanoseconds = if sliding_log::is_kept_by(policy) {
        sliding_log::wait(&context.source, policy, context.now)
    } else {
        window::wait(bucket, policy, context.now, amounts)
    };
    gcra::units(nanoseconds)
}

/// Returns whether the packet's source certainly caused the refusal. The debt of a new bucket behind a cell may belong
/// to its neighbours. So the bucket must have admitted as much as it holds.
#[inline(always)]
#[must_use]
pub fn is_certain(context: &Context, policy: &Policy, bucket: &Bucket) -> bool {
    if !settings::has_cells() || !policy.is_bucket() {
        return true;
    }
    let ([cost, amount], now) = (context.amounts(policy), gcra::units(context.now));
    let [packets, bytes] = bucket.counts.passed();
    let passed = if policy.second_reason() == Reason::OverPackets { packets } else { bytes };
    is_full(&policy.packets, &bucket.packets, now, cost, packets)
        || is_full(&policy.second, &bucket.second, now, amount, passed)
}

#[inline(always)]
fn is_full(meter: &Meter, state: &Word, now: Units, amount: u32, passed: u64) -> bool {
    let owes = state::debt(state.load(), now);
    meter.is_on() && owes + meter.cost_of(amount) > meter.rest() && meter.is_rest_filled_by(passed)
}
