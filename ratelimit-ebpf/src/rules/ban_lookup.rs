//! Bans of sources that no rule matches. Sources that a rule may match find their ban with their rules, in `lookup`.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{
        class::{self, Class, Classes},
        source::Source,
    },
    limits::policy::BANNED_ID,
    maps::control::Control,
    reason::Reason,
    rules::ban::Group,
};

use crate::{
    bpf::{atomic::Word, settings},
    maps::{
        bans,
        buckets::{self, Bucket},
        rules::spared,
    },
    packet::context::Context,
};

/// Whether a packet is banned.
#[derive(PartialEq)]
pub enum Banned {
    /// It is not.
    No,
    /// In the class that is billed, until this time in nanoseconds.
    Until(u64),
    /// In a narrower class, which has lost its default since. Other packets of the billed class are not banned.
    Narrower,
}

/// Looks for a ban of `source`, which has the billed class and this hash, for a packet of these classes.
#[inline(always)]
#[must_use]
pub fn find(source: &Source, hash: u64, classes: Classes, control: &Control, now: u64) -> Banned {
    if !settings::has_bans() {
        return Banned::No;
    }
    let group = Group(bans::group(source, hash, control).map_or(0, Word::load));
    if !group.may_have_bans(now) {
        return Banned::No;
    }
    let banned = if settings::has_services() && is_banned_below(source, classes, now) {
        Banned::Narrower
    } else {
        match bans::end_in(source, hash, group, now) {
            0 => return Banned::No,
            end => Banned::Until(end),
        }
    };
    if spared::has(source) { Banned::No } else { banned }
}

/// Makes a ban the policy of a packet, if its source has one. Returns the bucket of such a source, if there is one.
///
/// # Errors
///
/// Returns [`Reason::Banned`] if the refusal must not be cached, because it would refuse other packets of the source.
/// The context then has this reason too, unlike after a cached refusal.
#[inline(always)]
pub fn ask(context: &mut Context, classes: Classes, control: &Control) -> Result<Option<&'static Bucket>, Reason> {
    let end = match find(&context.source, context.hash, classes, control, context.now) {
        Banned::No => return Ok(None),
        Banned::Until(end) => end,
        Banned::Narrower => {
            context.reason = Reason::Banned;
            return Err(Reason::Banned);
        }
    };
    context.resolution = Resolution::new(context.resolution.generation(), BANNED_ID, end);
    let bucket = buckets::find(&context.source);
    if let Some(bucket) = bucket {
        // Commands see from this which policy decided last. The generation stays: the bucket has not followed its cell.
        let cached = bucket.resolved();
        let decided = context.resolution.in_generation(cached.generation());
        buckets::cache_resolution(&context.source, bucket, cached, decided);
    }
    Ok(bucket)
}

/// Returns whether the source is banned for a class of the packet that is narrower than its own.
#[inline(never)]
fn is_banned_below(source: &Source, classes: Classes, now: u64) -> bool {
    let billed = source.class as Class;
    let found = class::try_each(classes, true, |class| match class == billed {
        true => Err(false),
        false if bans::end(&source.of_class(class), now) != 0 => Err(true),
        false => Ok(()),
    });
    found == Err(true)
}
