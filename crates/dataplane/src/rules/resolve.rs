//! Resolves the limits of a source from the rules alone, by the precedence that the program runs too.

use aya::maps::{MapError, lpm_trie::Key};
use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    buckets::bucket::{Bucket, Resolution, STEP},
    identity::{
        class::{ANY, Class, Classes},
        filter::Filter,
        narrow::Lengths,
        source::{IPV6, Source},
    },
    limits::policy::{BANNED_ID, PolicyId},
    rules::{
        precedence::{self, Rules},
        rule::Rule,
        rule_match::Match,
    },
};

use crate::{
    Error,
    error::Tried as _,
    rules::{filter, policies, spec::RuleSpec},
    sys::host,
    tables::{bans::Bans, listed, open::Tables, spared},
};

/// The rules in the pinned maps.
struct Maps<'a>(&'a Tables);

impl Rules for Maps<'_> {
    type Error = Error;

    fn ban(&self, source: &Source) -> Result<Option<Rule>, Error> {
        self.0.ban(source)
    }

    fn source_rule(&self, source: &Source) -> Result<Option<Rule>, Error> {
        found(self.0.source_rules.open()?.get(source, 0))
    }

    fn prefix_rule(&self, source: &Source, bits: u8) -> Result<Option<Rule>, Error> {
        let (bits, data) = source.prefix_key(bits);
        found(self.0.prefix_rules.open()?.get(&Key::new(bits, data), 0))
    }

    fn is_spared(&self, source: &Source) -> Result<bool, Error> {
        spared::has(self.0, source)
    }

    fn default_policy(&self, class: Class) -> Result<PolicyId, Error> {
        self.0.default_policy(class)
    }
}

/// Returns the spec of a tracked source, for the packets of its own class, from the rules alone.
///
/// # Errors
///
/// Returns [`Error::Bpf`] if the kernel refuses.
pub fn of_source(tables: &Tables, source: &Source, classes: Classes) -> Result<RuleSpec, Error> {
    of_source_at(tables, source, classes, host::now()).map(|(spec, _)| spec)
}

fn of_source_at(tables: &Tables, source: &Source, classes: Classes, now: u64) -> Result<(RuleSpec, u64), Error> {
    let resolution = resolution(tables, source, classes, now)?;
    // The end is rounded down to a step.
    Ok((policies::spec(tables, resolution.policy())?, resolution.ends().saturating_add(STEP)))
}

/// Returns the slot of the policy of packets of these classes from a source.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn policy_of(tables: &Tables, source: &Source, classes: Classes) -> Result<PolicyId, Error> {
    Ok(resolution(tables, source, classes, host::now())?.policy())
}

/// What tells at once that no rule matches a source, as it was when this was read.
pub struct Unruled {
    filter: Box<Filter>,
    bans: Bans,
}

impl Unruled {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn read(tables: &Tables) -> Result<Self, Error> {
        Ok(Self { filter: filter::read(tables)?, bans: tables.bans()? })
    }

    /// Returns whether a source certainly has the default of all packets. Another source may have it too.
    #[must_use]
    pub fn has(&self, source: &Source) -> bool {
        source.class == u16::from(ANY) && !self.filter.concerns(source) && !self.bans.has(source, host::now())
    }
}

fn resolution(tables: &Tables, source: &Source, classes: Classes, now: u64) -> Result<Resolution, Error> {
    let ban = |class| precedence::of_bans(&Maps(tables), source, class, now);
    Ok(best(tables, source, classes, ban, now)?.0.resolution())
}

/// Returns the policy that limits packets of these classes from a source while it is not banned, and the billed class.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn limit_of(tables: &Tables, source: &Source, classes: Classes, now: u64) -> Result<(PolicyId, Class), Error> {
    let (best, billed) = best(tables, source, classes, |_| Ok(Match::NONE), now)?;
    Ok((best.resolution().policy(), billed))
}

/// Returns the match that wins with these bans, and the billed class.
fn best(
    tables: &Tables,
    source: &Source,
    classes: Classes,
    ban: impl FnMut(Class) -> Result<Match, Error>,
    now: u64,
) -> Result<(Match, Class), Error> {
    let rule = |class| precedence::of_class(&Maps(tables), source, class, now);
    precedence::best(classes, true, rule, ban, || listed::of_source(tables, source, now))
}

/// Returns whether a bucket is a source's. Parents have buckets too, and so has a source's service that another is
/// billed for.
#[must_use]
pub fn is_source(source: &Source, bucket: &Bucket) -> bool {
    source.parent == 0 && bucket.passed() | bucket.over_limit() != 0
}

/// Returns the spec of packets of these classes from one address.
///
/// # Errors
///
/// Returns [`Error::Bpf`] if the kernel refuses.
pub fn of_address(tables: &Tables, address: &Prefix, classes: Classes) -> Result<RuleSpec, Error> {
    of_address_at(tables, address, classes, host::now()).map(|(spec, _)| spec)
}

/// Returns the spec at `now`, in nanoseconds, and a time at which its rule has ended: [`u64::MAX`] if it stays.
///
/// # Errors
///
/// Returns [`Error::Bpf`] if the kernel refuses.
pub fn of_address_at(tables: &Tables, address: &Prefix, classes: Classes, now: u64) -> Result<(RuleSpec, u64), Error> {
    of_source_at(tables, &payer_at(tables, address, classes, now)?, classes, now)
}

/// Returns the source that pays for packets of these classes from an address.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn payer(tables: &Tables, address: &Prefix, classes: Classes) -> Result<Source, Error> {
    payer_at(tables, address, classes, host::now())
}

fn payer_at(tables: &Tables, address: &Prefix, classes: Classes, now: u64) -> Result<Source, Error> {
    let (address, control) = (address.source(), tables.control()?);
    let mut prefix = address.bits(control.ipv6_prefix as u8);
    // A part of an IPv6 source with a rule is a source of its own.
    if address.family == IPV6 && control.narrow_rules != 0 {
        let filter = filter::read(tables)?;
        let lengths = Lengths(control.narrow_rules);
        let bits = filter.longest_part(&address, control.ipv6_prefix as u8, lengths, &control.seed);
        prefix = prefix.max(longest_prefix(tables, &address.shortened(bits), classes, now)?);
    }
    Ok(address.shortened(prefix))
}

/// Returns whether this prefix is one source for packets of these classes, if so many bits of an IPv6 address make one.
/// Longer prefixes in it may be sources of their own.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn is_one_source(tables: &Tables, prefix: &Source, classes: Classes, ipv6_prefix: u8) -> Result<bool, Error> {
    let whole = prefix.bits(ipv6_prefix);
    if prefix.prefix <= whole {
        return Ok(prefix.prefix == whole);
    }
    // A part of an IPv6 source with a rule is a source of its own.
    Ok(longest_prefix(tables, prefix, classes, host::now())? == prefix.prefix)
}

/// Returns the bits of the longest prefix around a part that has a rule or a ban; 0 without one.
fn longest_prefix(tables: &Tables, part: &Source, classes: Classes, now: u64) -> Result<u8, Error> {
    let rules = Maps(tables);
    let rule = |class| precedence::of_class(&rules, part, class, now);
    let ban = |class| precedence::of_bans(&rules, part, class, now);
    let list = || listed::of_source(tables, part, now);
    Ok(precedence::longest_prefix(classes, true, rule, ban, list)?.prefix())
}

/// What decides about a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Winner {
    /// A rule or the default of a class.
    Rule,
    /// The first of the lists that have it.
    List,
    /// A ban.
    Ban,
}

/// Returns what decides about packets of these classes from a source, and the class of it.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn winner(tables: &Tables, source: &Source, classes: Classes) -> Result<(Winner, Class), Error> {
    let (rules, now) = (Maps(tables), host::now());
    let rule = |class| precedence::of_class(&rules, source, class, now);
    let ban = |class| precedence::of_bans(&rules, source, class, now);
    let list = listed::of_source(tables, source, now)?;
    let (best, billed) = precedence::best(classes, true, rule, ban, || Ok::<_, Error>(list))?;
    let winner = match best.resolution().policy() {
        BANNED_ID => Winner::Ban,
        _ if best == rule(billed)? => Winner::Rule,
        _ => Winner::List,
    };
    Ok((winner, billed))
}

fn found(outcome: Result<Rule, MapError>) -> Result<Option<Rule>, Error> {
    match outcome {
        Ok(rule) => Ok(Some(rule)),
        Err(MapError::KeyNotFound) => Ok(None),
        Err(error) => Err(error).tried("cannot read a rule"),
    }
}
