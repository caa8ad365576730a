//! Judges a packet: the one function between parsing and acting.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{
    bucket::Resolution,
    control::Control,
    gcra,
    map::POLICIES_MAX,
    policy::{self, Policy},
    reason::Reason,
    source::Source,
};

use crate::{
    bucket::Tracked,
    clock::Clock,
    maps::{BUCKETS, CONTROL, POLICIES},
    rules,
};

/// Why a packet of `length` bytes from `address` passes or is dropped.
#[inline(always)]
#[must_use]
pub fn judge(address: &Source, length: u32) -> Reason {
    let Some(control) = CONTROL.get(0) else { return Reason::NoState };
    let clock = Clock::read(control);
    let now = clock.now();
    let source = rules::identify(address, control, now);
    // SAFETY: nothing below removes the entry, and one that the kernel recycles holds another source's words, all valid.
    let bucket = match unsafe { BUCKETS.get(source) } {
        Some(bucket) => bucket,
        None => match admit(&source, control, now) {
            Ok(bucket) => bucket,
            Err(reason) => return reason,
        },
    };
    let cached = Resolution(bucket.resolution.load());
    let mut resolution = cached;
    if !resolution.holds(rules::generation(control), now) {
        resolution = rules::resolve(&source, control, now);
        // If the kernel has given the entry to another source meanwhile, that one's word stays.
        let _ = bucket.resolution.compare_exchange(cached.0, resolution.0);
    }
    let Some(policy) = policy(resolution) else { return Reason::NoState };
    let reason = bucket.ask(policy, &clock, length);
    bucket.count(reason.passes(), length);
    reason
}

/// Makes a bucket for a source that has none.
///
/// # Errors
///
/// The reason that decides about the packet where no bucket could be made.
#[inline(always)]
fn admit(source: &Source, control: &Control, now: u64) -> Result<&'static Tracked, Reason> {
    let resolution = rules::resolve(source, control, now);
    let fresh = Tracked::new(gcra::units(now), resolution.0);
    // Another CPU may have been first, so whatever the insert says, what counts is the bucket that is there.
    let _ = BUCKETS.insert(source, fresh, u64::from(BPF_NOEXIST));
    // SAFETY: as in `judge`.
    if let Some(bucket) = unsafe { BUCKETS.get(source) } {
        return Ok(bucket);
    }
    // Without a bucket a limit cannot be held, but a rule that needs none still decides.
    match policy(resolution).map(|policy| policy.kind) {
        Some(policy::ALLOW) => Err(Reason::Allowed),
        Some(policy::DENY) => Err(Reason::Denied),
        _ => Err(Reason::TableFull),
    }
}

#[inline(always)]
fn policy(resolution: Resolution) -> Option<&'static Policy> {
    POLICIES.get(resolution.policy() & (POLICIES_MAX - 1))
}
