//! Judges a packet: the one function between parsing and acting.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{
    bucket::Resolution,
    class::Classes,
    control::Control,
    gcra,
    policy::{self, Policy},
    reason::Reason,
    source::Source,
};

use crate::{
    bucket::Tracked,
    clock::Clock,
    identity,
    maps::{BUCKETS, CONTROL, POLICIES},
    parents::{self, Asker},
    rules, settings,
};

/// Why a packet of `length` bytes from `address` passes or is dropped, that belongs to these services and came in by this interface.
#[inline(always)]
#[must_use]
pub fn judge(address: Source, classes: Classes, length: u32, interface: u32) -> Reason {
    let Some(control) = CONTROL.get(0) else { return Reason::NoState };
    let clock = Clock::read(control);
    let now = clock.now();
    let mut source = identity::identify(address, classes, control, now);
    let (bucket, policy) = match track(&mut source, classes, control, now) {
        Ok(tracked) => tracked,
        Err(reason) => return reason,
    };
    let reason = if settings::is_on(&settings::PARENTS_ON) && policy.has_parents != 0 {
        parents::ask(&Asker { bucket, policy, source, control, now, length, interface })
    } else {
        bucket.ask(policy, &clock, length)
    };
    bucket.count(reason.passes(), length);
    reason
}

/// The bucket that is billed for packets of these classes, and its policy. `source` becomes of the class that is billed.
///
/// # Errors
///
/// The reason that decides about the packet where that cannot be told.
#[inline(always)]
fn track(
    source: &mut Source,
    mut classes: Classes,
    control: &Control,
    now: u64,
) -> Result<(&'static Tracked, &'static Policy), Reason> {
    // The narrowest class may have no rule for this source: then its bucket says which one has. If that has lost its own meanwhile,
    // there is only the rule for everything.
    let mut redirected = Resolution::NONE;
    for _ in 0..3 {
        let (bucket, resolution) = match find(source) {
            Some((bucket, resolution)) if resolution.holds(rules::generation(control), now) => (bucket, resolution),
            _ => {
                let resolution = renew(source, classes, control, now, redirected);
                (find(source).ok_or_else(|| without_bucket(resolution))?.0, resolution)
            }
        };
        match resolution.billed() {
            Some(class) if settings::is_on(&settings::SERVICES_ON) => {
                source.class = u16::from(class);
                classes = Classes::from(class);
                redirected = resolution;
            }
            _ => return Ok((bucket, POLICIES.get(resolution.policy()).ok_or(Reason::NoState)?)),
        }
    }
    Err(Reason::NoState)
}

/// The bucket of a source, and what was resolved for it.
#[inline(always)]
fn find(source: &Source) -> Option<(&'static Tracked, Resolution)> {
    // SAFETY: nothing here removes the entry, and one that the kernel recycles holds another source's words, all valid.
    let bucket = unsafe { BUCKETS.get(source) }?;
    Some((bucket, Resolution(bucket.resolution.load())))
}

/// Resolves the policy of a source and remembers it in its bucket, which is made if there is none. Rarely called, and looked for by
/// the caller afterwards: so the verifier walks through it once, whether there was a bucket or not.
///
/// What a packet was redirected to is resolved by a part of its classes only, which is enough as long as no rule changes: so it holds no
/// longer than what has redirected it.
#[inline(never)]
fn renew(source: &Source, classes: Classes, control: &Control, now: u64, redirected: Resolution) -> Resolution {
    let mut resolution = rules::resolve(source, classes, control, now);
    if redirected != Resolution::NONE {
        resolution = resolution.in_generation(redirected.generation());
    }
    match find(source) {
        // If the kernel has given the entry to another source meanwhile, that one's word stays.
        Some((bucket, cached)) => drop(bucket.resolution.compare_exchange(cached.0, resolution.0)),
        None => make(source, now, resolution),
    }
    resolution
}

/// Why a packet passes or not whose source has no bucket: a limit cannot be held, but a rule that needs none still decides.
#[inline(always)]
fn without_bucket(resolution: Resolution) -> Reason {
    match POLICIES.get(resolution.policy()).map(|policy: &Policy| policy.kind) {
        Some(policy::ALLOW) => Reason::Allowed,
        Some(policy::DENY) => Reason::Denied,
        _ => Reason::TableFull,
    }
}

/// Puts a bucket into the map, unless another CPU was first: whatever the insert says, what counts is the bucket that is there.
#[inline(always)]
pub(crate) fn make(source: &Source, now: u64, resolution: Resolution) {
    let fresh = Tracked::new(gcra::units(now), resolution.0);
    let _ = BUCKETS.insert(source, fresh, u64::from(BPF_NOEXIST));
}
