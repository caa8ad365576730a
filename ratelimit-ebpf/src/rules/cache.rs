//! Which policy a source has that a rule may concern: its own bucket remembers.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{class::Classes, source::Source},
    limits::policy::{ALLOWED_ID, BANNED_ID, COARSE, DENIED_ID, DROP},
    maps::control::Control,
    meters::gcra,
    reason::Reason,
};

use crate::{
    bpf::{clock::Clock, settings},
    buckets::{admission, handover},
    cells::cell,
    limits::source_bucket,
    maps::{
        all::{BUCKETS, POLICIES},
        resize,
    },
    meters::token_bucket::Tracked,
    rules::lookup,
};

/// The policy of a source that a rule may concern, and the bucket that remembers it, if there is one. `source` becomes of the class that is
/// billed.
///
/// # Errors
///
/// The reason that decides about the packet where that cannot be told.
#[inline(always)]
pub fn track(
    source: &mut Source,
    mut classes: Classes,
    control: &Control,
    now: u64,
) -> Result<(Option<&'static Tracked>, Resolution), Reason> {
    // The narrowest class may have no rule for this source: then its bucket says which one has. If that has lost its own meanwhile,
    // there is only the rule for everything.
    let mut redirected = Resolution::NONE;
    for _ in 0..3 {
        let found = find(source).filter(|bucket| bucket.resolved().holds(lookup::generation(control), now));
        let (bucket, resolution) = match found {
            Some(bucket) => (Some(bucket), bucket.resolved()),
            None => {
                let resolution = renew(source, classes, control, now, redirected);
                (find(source), resolution)
            }
        };
        match resolution.billed() {
            Some(class) if settings::is_on(&settings::SERVICES_ON) => {
                source.class = u16::from(class);
                classes = Classes::from(class);
                redirected = resolution;
            }
            _ => return Ok((bucket, resolution)),
        }
    }
    Err(Reason::NoState)
}

/// The policy alone, of what stands behind cells: [`Resolution::NOTHING`] where it cannot be told. What a rule for everything
/// or nothing decides is counted here, with the bucket at hand. A function of its own, for the verifier to go on from it in one state.
#[inline(never)]
#[must_use]
pub fn resolution(source: &mut Source, classes: Classes, control: &Control, now: u64, length: u32) -> Resolution {
    let Ok((bucket, resolution)) = track(source, classes, control, now) else { return Resolution::NOTHING };
    if let Some(bucket) = bucket {
        match resolution.policy() {
            ALLOWED_ID => bucket.counts.count_passed(1, u64::from(length)),
            DENIED_ID | BANNED_ID => bucket.counts.count_dropped(DROP, 1, u64::from(length)),
            _ => {}
        }
    }
    resolution
}

/// The bucket of a source.
#[inline(always)]
#[must_use]
pub fn find(source: &Source) -> Option<&'static Tracked> {
    // SAFETY: nothing here removes the entry, and one that the kernel recycles holds another source's words, all valid.
    let found = unsafe { BUCKETS.get(source) };
    if resize::is_on() && found.is_none() {
        resize::fetch_bucket(source);
        // SAFETY: as above.
        return unsafe { BUCKETS.get(source) };
    }
    found
}

/// Resolves the policy of a source and remembers it in its bucket, which is made if there is none and the part of the budget for
/// records admits one. Rarely called, and looked for by the caller afterwards: so the verifier walks through it once, whether there was a
/// bucket or not.
///
/// What a packet was redirected to is resolved by a part of its classes only, which is enough as long as no rule changes: so it holds no
/// longer than what has redirected it.
#[inline(never)]
fn renew(source: &Source, classes: Classes, control: &Control, now: u64, redirected: Resolution) -> Resolution {
    let mut resolution = lookup::resolve(source, classes, control, now);
    if redirected != Resolution::NONE {
        resolution = resolution.in_generation(redirected.generation());
    }
    let hash = if cell::is_on() { source.hash(&control.seed) } else { 0 };
    match find(source) {
        // If the kernel has given the entry to another source meanwhile, that one's word stays.
        Some(bucket) => {
            handover::follow(bucket, hash, resolution, control, now);
            let cached = bucket.resolved();
            let _ = bucket.resolution.compare_exchange(cached.0, resolution.0);
        }
        None if !cell::is_on() => admission::make(source, gcra::units(now), gcra::units(now), resolution),
        None if admission::admits_record(control, now) => match POLICIES.get(resolution.policy()) {
            Some(policy) => {
                // By the clock that judges.
                let clock = if policy.flags & COARSE == 0 { Clock::read(control) } else { Clock::of(control, now) };
                source_bucket::make(source, hash, policy, resolution, &clock);
            }
            // Another class is billed, so this one owes nothing.
            None => admission::make(source, gcra::units(now), gcra::units(now), resolution),
        },
        None => {}
    }
    resolution
}
