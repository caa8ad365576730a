//! Lets a new source begin with a part of the burst of the default limit, while the hosts of a fleet divide it.
//!
//! The part is in the cell. A source that has spent it gets a bucket, and the cell and the bucket owe the rest.

use ratelimit_common::{
    buckets::bucket::Resolution,
    fleet::lease::{self, EVERY_SOURCE},
    identity::{
        class::ANY,
        source::{IPV6, Source},
    },
    limits::policy::{Policy, SECOND_OF_PACKETS},
    maps::control::Control,
    meters::{
        gcra::Units,
        meter::{MAX_FRAME, Meter},
        stages, start, state,
    },
};

use crate::{
    bpf::{
        atomic::Word,
        clock::Clock,
        settings,
        verifier::{given, key},
    },
    maps::{
        buckets,
        cells::{self, Levels},
        control,
        exchange::{FEW_TRIES, exchange},
        leases, rules,
    },
    packet::context::Context,
};

/// Returns whether the cell shows that a source may have spent its part, so that its bucket decides.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub fn is_spent(context: *const Context, control: *const Control, levels: *const Levels) -> bool {
    if !settings::divides_bursts() {
        return false;
    }
    let (Some(context), Some(control), Some(levels)) = (given(context), given(control), given(levels)) else {
        return false;
    };
    let Some((policy, parts)) = parts(&context.source, context.resolution, control, context.tick) else { return false };
    let (clock, [one, amount]) = (context.clock(control), context.amounts(policy));
    let Policy { packets, second, .. } = policy;
    let is_over = |level: &Word, meter: &Meter, cost: Units, part| {
        meter.is_on() && cells::debt(level, &clock).saturating_add(cost) > part
    };
    is_over(&levels.packets, packets, packets.cost_of(one), parts[0])
        || is_over(&levels.second, second, second.cost_of(amount), parts[1])
}

/// Returns whether hosts divide the burst of a packet's source now.
#[inline(always)]
pub fn is_divided(context: &Context, control: &Control) -> bool {
    parts(&context.source, context.resolution, control, context.tick).is_some()
}

/// Makes the new bucket of the source with this hash owe what other hosts have of the burst, and its cell too.
#[inline(always)]
pub fn spend(source: &Source, hash: u64, resolution: u64, now: u64) {
    spend_one(source, hash, resolution, now, false);
    spend_one(source, hash, resolution, now, true);
}

/// Does so for one limit, because of the stack.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn spend_one(source: *const Source, hash: u64, resolution: u64, now: u64, is_second: bool) -> u32 {
    if !settings::divides_bursts() {
        return 0;
    }
    let (Some(source), Some(control)) = (given(source), control::get()) else { return 0 };
    let Some((policy, [first, also])) = parts(source, Resolution(resolution), control, now) else { return 0 };
    let Some(bucket) = buckets::inserted(&key(source)) else { return 0 };
    let clock = Clock::of(control, now);
    let (own, meter, part) = match is_second {
        false => (&bucket.packets, &policy.packets, first),
        true => (&bucket.second, &policy.second, also),
    };
    if settings::has_cells() {
        // The default limit has no lane.
        let Some(cell) = cells::of(hash) else { return 0 };
        owe(Some(if is_second { &cell.levels.second } else { &cell.levels.packets }), own, meter, part, &clock);
    } else {
        owe(None, own, meter, part, &clock);
    }
    0
}

/// Charges a limit with the rest of the burst. If another CPU is first at each try, the source keeps what it has.
#[inline(always)]
fn owe(level: Option<&Word>, own: &Word, meter: &Meter, part: Units, clock: &Clock<'_>) {
    let (now, most, rest) = (clock.units(), clock.largest_debt(), meter.burst.saturating_sub(part));
    if !meter.is_on() || rest == 0 {
        return;
    }
    let mut owed = now.wrapping_add(rest);
    if let Some(level) = level {
        let _ = exchange::<FEW_TRIES>(level, |seen| {
            let charged = stages::charge_cell(stages::level_debt(seen, now, most), now, rest, meter);
            owed = stages::handed(charged.wrapping_sub(now), now, meter);
            Some(charged)
        });
    }
    let seen = own.load();
    if state::debt(seen, now) < state::debt(owed, now) {
        let _ = own.compare_exchange(seen, owed);
    }
}

/// Returns the policy of a source and the parts of both bursts, if hosts divide them now. A link-local address is another
/// machine on each link.
#[inline(always)]
fn parts(
    source: &Source,
    resolution: Resolution,
    control: &Control,
    now: u64,
) -> Option<(&'static Policy, [Units; 2])> {
    if resolution.policy() != rules::default_policy(ANY) {
        return None;
    }
    let [first, second, ..] = source.address();
    if source.family == IPV6 && source.prefix == 128 && first == 0xfe && second >> 6 == 2 {
        return None;
    }
    let hosts = lease::hosts(leases::find(EVERY_SOURCE, now)?.multiplier.load());
    let policy = rules::policy(resolution.policy())?;
    let frame = if policy.flags & SECOND_OF_PACKETS == 0 { MAX_FRAME } else { control.most_cost };
    let of = |meter: &Meter, largest| start::part(meter, meter.cost_of(largest), hosts);
    Some((policy, [of(&policy.packets, control.most_cost), of(&policy.second, frame)]))
}
