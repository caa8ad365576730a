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

/// Checks that each deny of a change applies to some address. The error names the session of one of these peers if the
/// forced change may shut it out.
///
/// # Errors
///
/// [`Error::Spared`] for the first that does not, [`Error::Bpf`] if the kernel refuses.
pub fn check(tables: &Tables, change: &Change, peers: &[Prefix]) -> Result<(), Error> {
    let is_deny = |spec: usize| change.specs.get(spec).is_some_and(|spec| spec.policy == Policy::DENIED);
    let of_prefix = |sources| if let Sources::Prefix(prefix) = sources { Some(prefix) } else { None };
    let denies = change.rules.iter().filter(|rule| is_deny(rule.spec));
    let denied: Vec<Prefix> = denies.filter_map(|rule| of_prefix(rule.target.sources)).collect();
    if denied.is_empty() { Ok(()) } else { check_places(&renew::in_force(tables)?, &denied, peers) }
}

fn check_places(places: &[Place], denied: &[Prefix], peers: &[Prefix]) -> Result<(), Error> {
    let spared = denied.iter().find_map(|prefix| Some((*prefix, around(places, *prefix)?)));
    let Some((prefix, place)) = spared else { return Ok(()) };
    let peer = peers.iter().find(|peer| denied.iter().any(|prefix| prefix.contains(peer)));
    let also = peer.map_or_else(String::new, |peer| format!(", and may shut out the SSH session from {peer}"));
    Err(Error::Spared { denied: prefix.to_string(), place: is(prefix, &place), also })
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

#[cfg(test)]
mod tests {
    use ratelimit_common::rules::spared::Spared;

    use super::*;

    #[test]
    fn the_advice_to_force_names_the_session_that_it_may_shut_out() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        let places = [Place { prefix: prefix("10.9.0.0/24"), why: Spared::Network }];
        let refusal = |denied: &[&str], peers: &[&str]| {
            let all = |texts: &[&str]| texts.iter().map(|text| prefix(text)).collect::<Vec<_>>();
            check_places(&places, &all(denied), &all(peers)).err().map(|error| error.to_string())
        };
        let plain = "10.9.0.7 is within 10.9.0.0/24 (a connected network), to which no deny is applied: nothing was \
                     changed, --force denies it anyway";
        let shut_out = format!("{plain}, and may shut out the SSH session from 10.9.0.7");
        assert_eq!(refusal(&["10.9.0.7"], &[]).as_deref(), Some(plain));
        assert_eq!(refusal(&["10.9.0.7"], &["10.9.0.8"]).as_deref(), Some(plain));
        assert_eq!(refusal(&["10.9.0.7"], &["192.0.2.1", "10.9.0.7"]), Some(shut_out.clone()));
        // --force would deny this, too.
        let wide = shut_out.replace("from 10.9.0.7", "from 10.9.0.9");
        assert_eq!(refusal(&["10.9.0.7", "10.0.0.0/8"], &["10.9.0.9"]), Some(wide));
        assert_eq!(refusal(&["10.0.0.0/8", "192.0.2.1"], &["10.9.0.9"]), None);
    }
}
