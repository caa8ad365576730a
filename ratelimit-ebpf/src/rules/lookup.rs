//! Looks rules up in the maps, by the [precedence] that the user side runs too.
//!
//! The program reads the generation before the rules. x86 keeps that order. On a machine that does not, a packet can
//! cache a refusal of an old rule under the new generation. It lasts until its end, at most 73 minutes later.

use core::convert::Infallible;

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{
        class::{Class, Classes},
        source::Source,
    },
    limits::policy::PolicyId,
    maps::control::Control,
    rules::{
        ban::rule as ban,
        precedence::{self, Rules},
        rule::Rule,
        rule_match::Match,
    },
};

use crate::{
    bpf::{
        settings,
        verifier::{given, key},
    },
    maps::{
        bans, control,
        rules::{self, spared},
    },
    rules::list_lookup,
};

/// The rules in the maps.
struct Maps {
    /// Time of the packet in nanoseconds.
    now: u64,
}

impl Rules for Maps {
    type Error = Infallible;

    #[inline(always)]
    fn ban(&self, source: &Source) -> Result<Option<Rule>, Infallible> {
        let expires = bans::end(source, self.now);
        Ok((expires != 0).then(|| ban(source, expires)))
    }

    #[inline(always)]
    fn source_rule(&self, source: &Source) -> Result<Option<Rule>, Infallible> {
        Ok(rules::source_rule(source))
    }

    #[inline(always)]
    fn prefix_rule(&self, source: &Source, bits: u8) -> Result<Option<Rule>, Infallible> {
        Ok(rules::prefix_rule(source, bits))
    }

    #[inline(always)]
    fn default_policy(&self, class: Class) -> Result<PolicyId, Infallible> {
        Ok(rules::default_policy(class))
    }

    #[inline(always)]
    fn is_spared(&self, source: &Source) -> Result<bool, Infallible> {
        Ok(spared::has(source))
    }
}

/// Returns the policy of `source` for packets of these classes, and its validity.
#[inline(always)]
#[must_use]
pub fn resolve(source: &Source, classes: Classes, control: &Control, now: u64) -> Resolution {
    let generation = control::generation_first(control);
    let (best, billed) = best(source, classes, control, generation, now);
    if best.is_verdict() || u16::from(billed) == source.class {
        best.resolution().in_generation(generation)
    } else {
        best.resolution().billed_to(billed).in_generation(generation)
    }
}

/// Returns the class that is billed and its policy, for a whole address.
#[inline(always)]
pub fn of_address(address: &Source, classes: Classes, control: &Control, now: u64) -> (Class, Resolution) {
    let (best, billed) = best(address, classes, control, control::generation_first(control), now);
    (billed, best.resolution())
}

#[inline(always)]
fn best(source: &Source, classes: Classes, control: &Control, generation: u32, now: u64) -> (Match, Class) {
    let Ok(best) = precedence::best::<Infallible>(
        classes,
        settings::has_services(),
        |class| Ok(find(source, class, now)),
        |class| Ok(find_ban(source, class, now)),
        || Ok(list_lookup::find(source, control, generation, now)),
    );
    best
}

/// Returns the match with the longest prefix around `address` that has a rule or a ban for any of the classes, or is on
/// a list.
#[inline(always)]
pub(super) fn longest_prefix(
    address: &Source,
    classes: Classes,
    control: &Control,
    generation: u32,
    now: u64,
) -> Match {
    let Ok(found) = precedence::longest_prefix::<Infallible>(
        classes,
        settings::has_services(),
        |class| Ok(find(address, class, now)),
        |class| Ok(find_ban(address, class, now)),
        || Ok(list_lookup::find(address, control, generation, now)),
    );
    found
}

/// Returns the match of a class's rules for a source.
#[inline(always)]
fn find(source: &Source, class: Class, now: u64) -> Match {
    Match(find_rule(source, u32::from(class), now))
}

/// A global function, since the walk over expired prefixes is long and each class calls it.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn find_rule(source: *const Source, class: u32, now: u64) -> u64 {
    let Some(source) = given(source) else { return Match::NONE.0 };
    let Ok(found) = precedence::of_class(&Maps { now }, &key(source), class as Class, now);
    found.0
}

/// Returns the ban of a source in a class.
#[inline(never)]
fn find_ban(source: &Source, class: Class, now: u64) -> Match {
    let Ok(found) = precedence::of_bans(&Maps { now }, source, class, now);
    found
}
