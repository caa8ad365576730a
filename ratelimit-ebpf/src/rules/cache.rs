//! The resolved policy of a source, cached in the source's own bucket.
//!
//! Each bucket keeps generation, policy and end of validity in one word, so these three never disagree. Any change of
//! rules makes the word stale.
//!
//! New connections belong to the services `tcp-syn`, their port and `tcp`. The port matters for billing if `tcp-syn`
//! has no rule for the source. So a fourth byte of the class word marks such packets in the key of the bucket.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{class::Classes, source::Source},
    maps::control::Control,
    reason::Reason,
};

use crate::{
    bpf::settings,
    buckets::create,
    maps::{
        buckets::{self, Bucket},
        cells, control,
    },
    packet::context::Context,
    rules::lookup,
};

/// Returns the policy of a source that a rule may match, and the bucket that caches it, if there is one. Sets the class
/// of `source` to the billed one.
///
/// # Errors
///
/// Returns the reason that decides about the packet if there is no policy.
#[inline(always)]
pub fn track(
    source: &mut Source,
    mut classes: Classes,
    control: &Control,
    now: u64,
) -> Result<(Option<&'static Bucket>, Resolution), Reason> {
    // If the narrowest class has no rule for this source, its bucket names the class that has one. If that class has
    // lost its rule meanwhile, only the rule for everything is left.
    let mut redirected = Resolution::NONE;
    for _ in 0..3 {
        let found = buckets::find(source).map(|bucket| (bucket, bucket.resolved()));
        let (bucket, resolution) = match found {
            Some((bucket, resolution)) if resolution.holds(control::generation(control), now) => {
                (Some(bucket), resolution)
            }
            _ => {
                let resolution = renew(source, classes, control, now, redirected);
                (buckets::find(source), resolution)
            }
        };
        match resolution.billed() {
            Some(class) if settings::has_services() => {
                source.class = u16::from(class);
                classes = Classes::from(class);
                redirected = resolution;
            }
            _ => return Ok((bucket, resolution)),
        }
    }
    Err(Reason::NoState)
}

/// Writes the policy of a packet behind cells into its context: [`Resolution::NOTHING`] if there is none. Returns the
/// bucket that caches it. Not inlined, because of its stack.
#[inline(never)]
#[must_use]
pub fn resolve(context: &mut Context, classes: Classes, control: &Control) -> Option<&'static Bucket> {
    context.resolution = Resolution::NOTHING;
    let (bucket, resolution) = track(&mut context.source, classes, control, context.now).ok()?;
    context.resolution = resolution;
    bucket
}

/// Resolves the policy of a source and caches it in its bucket. Creates the bucket if the budget for records admits it.
/// The caller looks for the bucket afterwards, so the verifier walks through that once, whether there was a bucket or
/// not.
///
/// A redirected packet is resolved by some of its classes only, which suffices as long as no rule changes. So the
/// result is valid no longer than the redirection.
#[inline(never)]
fn renew(source: &Source, classes: Classes, control: &Control, now: u64, redirected: Resolution) -> Resolution {
    let mut resolution = lookup::resolve(source, classes, control, now);
    if redirected != Resolution::NONE {
        resolution = resolution.in_generation(redirected.generation());
    }
    // Without cells, nothing needs the hash.
    let hash = if settings::has_cells() { source.hash(&control.seed) } else { 0 };
    match buckets::find(source) {
        Some(bucket) => {
            let is_complete = create::follow(source, bucket, hash, resolution, control);
            let before = bucket.resolved();
            buckets::cache_resolution(source, bucket, before, if is_complete { resolution } else { before });
        }
        None if !settings::has_cells() || create::admits_record(control, now) => {
            create::of_source(source, hash, resolution, control, now);
        }
        None => {}
    }
    if settings::has_cells() {
        cells::note_used_bucket(hash);
    }
    resolution
}
