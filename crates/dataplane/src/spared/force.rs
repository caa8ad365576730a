//! Denies that an operator forces.

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::limits::policy::Policy;

use crate::{
    Error,
    rules::{batch::Change, spec::RuleSpec, target::Sources},
    spared::{
        place::Place,
        renew,
        unapplied::{around, meeting},
    },
    tables::open::Tables,
};

/// Checks that each deny of a change applies to some address.
///
/// # Errors
///
/// [`Error::Spared`] for the first that does not, [`Error::Bpf`] if the kernel refuses.
pub fn check(tables: &Tables, change: &Change) -> Result<(), Error> {
    let is_deny = |spec: usize| change.specs.get(spec).is_some_and(|spec| spec.policy == Policy::DENIED);
    let mut denies = change.rules.iter().filter(|rule| is_deny(rule.spec)).peekable();
    if denies.peek().is_none() {
        return Ok(());
    }
    let places = renew::in_force(tables)?;
    for rule in denies {
        if let Sources::Prefix(prefix) = rule.target.sources
            && let Some(place) = around(&places, prefix)
        {
            return Err(Error::Spared { denied: prefix.to_string(), place: is(prefix, &place) });
        }
    }
    Ok(())
}

/// Returns what a prefix inside a place is to this host, for the words *it is*.
#[must_use]
pub fn is(prefix: Prefix, place: &Place) -> String {
    let reason = place.reason();
    if place.prefix == prefix { reason.to_owned() } else { format!("within {} ({reason})", place.prefix) }
}

/// Returns the rule that also denies what this host spares, if this is a deny and the prefix has something of that.
#[must_use]
pub fn forced(spec: &RuleSpec, places: &[Place], prefix: Prefix) -> RuleSpec {
    let spares = spec.policy == Policy::DENIED && !meeting(places, prefix).is_empty();
    if spares { Policy::FORCED.into() } else { spec.clone() }
}
