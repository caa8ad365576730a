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
        gcra::{self, Units},
        meter::{MAX_FRAME, Meter},
        stages, start,
    },
};

use crate::{
    bpf::{
        atomic::Word,
        clock::Clock,
        settings,
        verifier::{given, key},
    },
    buckets::create,
    cells::level,
    maps::{
        cells, classes,
        exchange::{FEW_TRIES, exchange},
        leases,
        levels::Levels,
        rules,
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
        meter.is_on() && level::debt(level, &clock).saturating_add(cost) > part
    };
    is_over(&levels.packets, packets, packets.cost_of(one), parts[0])
        || is_over(&levels.second, second, second.cost_of(amount), parts[1])
}

/// Inserts the bucket of the context's source, after the cell owes what other hosts have of the burst.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub fn insert(context: *const Context, control: *const Control) -> u32 {
    if settings::divides_bursts()
        && let (Some(context), Some(control)) = (given(context), given(control))
        && let Some(policy) = context.policy()
        && let Some(levels) = cells::levels(policy, context.hash)
    {
        spend(&context.source, levels, context.resolution.0, control, context.tick);
        create::from_levels(&key(&context.source), levels, policy, context.resolution, &context.clock(control));
    }
    0
}

/// Makes the cell owe what other hosts have of the burst, before the source gets its bucket.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub fn spend(source: *const Source, levels: *const Levels, resolution: u64, control: *const Control, now: u64) -> u32 {
    if !settings::divides_bursts() {
        return 0;
    }
    let (Some(source), Some(levels), Some(control)) = (given(source), given(levels), given(control)) else { return 0 };
    let Some((policy, parts)) = parts(source, Resolution(resolution), control, now) else { return 0 };
    let clock = Clock::of(control, now);
    let owe = |level: &Word, meter: &Meter, part| {
        let (now, most, rest) = (clock.units(), clock.largest_debt(), meter.burst.saturating_sub(part));
        if meter.is_on() && rest != 0 {
            // If another CPU is first at each try, the source keeps what it has.
            let _ = exchange::<FEW_TRIES>(level, |seen| {
                Some(stages::charge_cell(stages::level_debt(seen, now, most), now, rest, meter))
            });
        }
    };
    owe(&levels.packets, &policy.packets, parts[0]);
    owe(&levels.second, &policy.second, parts[1]);
    0
}

/// Returns the state of a limit in a new bucket without a cell: the first one, or `second`.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub fn state(source: *const Source, resolution: u64, control: *const Control, now: u64, second: bool) -> u64 {
    let drained = gcra::units(now);
    if !settings::divides_bursts() {
        return drained;
    }
    let (Some(source), Some(control)) = (given(source), given(control)) else { return drained };
    let Some((policy, parts)) = parts(source, Resolution(resolution), control, now) else { return drained };
    let (meter, part) = if second { (&policy.second, parts[1]) } else { (&policy.packets, parts[0]) };
    drained.wrapping_add(meter.burst.saturating_sub(part))
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
    if resolution.policy() != classes::default_policy(ANY) {
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
