//! What denies, but is not applied to prefixes that this host spares.

use std::{collections::HashMap, fmt};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::source::Source,
    limits::policy::{DENIED_ID, FORCED_ID, PolicyId},
    rules::{
        list::{LIST_SLOTS, Slots},
        rule::Rule,
    },
};
use serde::Serialize;

use crate::{
    Error,
    lists::{
        action::Action,
        listing::{self, Listing},
    },
    spared::{
        place::{Place, PlaceRow},
        renew,
        spans::Spans,
    },
    sys::host,
    tables::{open::Tables, rule_maps},
};

/// The most entries that are named. Further ones are counted.
const NAMED: usize = 100;
/// The most entries of lists, and the most rules, that are read where nobody waits for all of them.
const FEW: usize = 1 << 16;

/// An entry that contains spared prefixes, or lies in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unapplied {
    /// The entry.
    pub entry: Prefix,
    /// To what it is not applied.
    pub places: Vec<Place>,
}

/// The most spared prefixes that a line names.
const IN_A_LINE: usize = 5;

impl fmt::Display for Unapplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not applied to {}", self.entry, self.named())
    }
}

impl Unapplied {
    /// Returns the first places, and how many more there are.
    #[must_use]
    pub fn named(&self) -> String {
        let named: Vec<String> = self.places.iter().take(IN_A_LINE).map(Place::to_string).collect();
        match self.places.len() - named.len() {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    }
}

/// An entry in the output.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    entry: String,
    not_applied_to: Vec<PlaceRow>,
}

impl From<&Unapplied> for Row {
    fn from(unapplied: &Unapplied) -> Self {
        Self {
            entry: unapplied.entry.to_string(),
            not_applied_to: unapplied.places.iter().map(PlaceRow::from).collect(),
        }
    }
}

/// The entries of one list that are not applied to spared prefixes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The first of them, in their order.
    pub named: Vec<Unapplied>,
    /// How many there are.
    pub count: usize,
}

impl Found {
    /// Returns those of these entries.
    pub fn of(places: &[Place], entries: impl IntoIterator<Item = Prefix>) -> Self {
        let (spans, mut found) = (Spans::of(places.iter().map(|place| place.prefix)), Self::default());
        entries.into_iter().for_each(|entry| found.add(&spans, places, entry));
        found
    }

    fn add(&mut self, spans: &Spans, places: &[Place], entry: Prefix) {
        if !spans.meet(entry) {
            return;
        }
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(Unapplied { entry, places: meeting(places, entry) });
        }
    }

    /// Returns each line about them: the first `most` are named.
    pub fn lines(&self, most: usize) -> impl Iterator<Item = String> + '_ {
        let more = self.count.saturating_sub(most);
        let more = (more > 0).then(|| match more {
            1 => "and 1 more entry".to_owned(),
            more => format!("and {more} more entries"),
        });
        self.named.iter().take(most).map(Unapplied::to_string).chain(more)
    }

    /// Returns those that are named as they are in the output.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.named.iter().map(Row::from).collect()
    }
}

/// Returns the spared prefixes inside or around a prefix.
#[must_use]
pub fn meeting(places: &[Place], prefix: Prefix) -> Vec<Place> {
    let meets = |place: &&Place| prefix.contains(&place.prefix) || place.prefix.contains(&prefix);
    places.iter().filter(meets).copied().collect()
}

/// Returns the spared prefix around a prefix, of which a deny would apply to no address. Of several, the narrowest.
#[must_use]
pub fn around(places: &[Place], prefix: Prefix) -> Option<Place> {
    let around = places.iter().filter(|place| place.prefix.contains(&prefix));
    around.max_by_key(|place| place.prefix.bits()).copied()
}

/// Returns what of a list is not applied.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn of_list(tables: &Tables, list: &Listing) -> Result<Found, Error> {
    let places = renew::in_force(tables)?;
    if list.action != Action::Deny || places.is_empty() {
        return Ok(Found::default());
    }
    Ok(Found::of(&places, listing::entries(tables, list)?))
}

/// Returns the names of lists with entries that are not applied, by name, with these. None if there are very many entries,
/// unless `is_thorough`.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn of_lists(tables: &Tables, is_thorough: bool) -> Result<Option<Vec<(String, Found)>>, Error> {
    let (places, now) = (renew::in_force(tables)?, host::now());
    let lists = listing::in_force(tables)?;
    let lists: Vec<_> = lists.into_iter().filter(|one| one.list.denies() && !one.list.is_over(now)).collect();
    if lists.is_empty() || places.is_empty() {
        return Ok(Some(Vec::new()));
    }
    if !is_thorough && tables.lists.has_more_than(FEW)? {
        return Ok(None);
    }
    let spans = Spans::of(places.iter().map(|place| place.prefix));
    let addresses = tables.lists.addresses()?.into_iter();
    let addresses = addresses.map(|(address, slots)| (Source::v4(address.to_ne_bytes()), slots));
    let mut entries: Vec<(Prefix, Slots)> = addresses
        .chain(tables.lists.prefixes()?)
        .map(|(source, slots)| (Prefix::of(&source, source.prefix), slots))
        .filter(|(prefix, _)| spans.meet(*prefix))
        .collect();
    entries.sort_unstable();
    let mut by_slot = HashMap::<u32, Found>::new();
    for (entry, slots) in entries {
        for slot in (0..LIST_SLOTS).filter(|slot| slots >> slot & 1 != 0) {
            by_slot.entry(slot).or_default().add(&spans, &places, entry);
        }
    }
    let named = lists.iter().filter_map(|one| by_slot.remove(&one.slot).map(|found| (one.name(), found)));
    let mut named: Vec<(String, Found)> = named.collect();
    named.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(Some(named))
}

/// Returns the rules *deny* that are not applied to spared prefixes. None if there are very many rules, unless
/// `is_thorough`.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn of_denies(tables: &Tables, is_thorough: bool) -> Result<Option<Found>, Error> {
    of_rules(tables, DENIED_ID, if is_thorough { usize::MAX } else { FEW })
}

/// Returns the rules *deny* that were forced, and apply to spared prefixes, too.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn of_forced(tables: &Tables) -> Result<Found, Error> {
    Ok(of_rules(tables, FORCED_ID, usize::MAX)?.unwrap_or_default())
}

/// Returns the rules with this policy that meet spared prefixes. None if there are more rules than `most`.
fn of_rules(tables: &Tables, policy: PolicyId, most: usize) -> Result<Option<Found>, Error> {
    let (places, now) = (renew::in_force(tables)?, host::now());
    if places.is_empty() {
        return Ok(Some(Found::default()));
    }
    let (Some(sources), Some(prefixes)) =
        (rule_maps::few_sources(tables, most)?, rule_maps::few_prefixes(tables, most)?)
    else {
        return Ok(None);
    };
    let is_one = |rule: &Rule| rule.at(now).is_some_and(|rule| rule.policy == policy);
    let rules = sources.into_iter().chain(prefixes).filter(|(_, rule)| is_one(rule));
    let mut entries: Vec<Prefix> = rules.map(|(source, _)| Prefix::of(&source, source.prefix)).collect();
    entries.sort_unstable();
    Ok(Some(Found::of(&places, entries)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratelimit_common::rules::spared::Spared;

    use super::*;

    fn places(prefixes: &[&str]) -> Vec<Place> {
        prefixes.iter().map(|prefix| Place { prefix: prefix.parse().unwrap(), why: Spared::Network }).collect()
    }

    fn prefix() -> impl Strategy<Value = Prefix> {
        let v4 = (any::<u8>(), 20u8..=32).prop_map(|(low, bits)| {
            let source = Source::v4([10, 9, low & 3, low]).shortened(bits);
            Prefix::of(&source, bits)
        });
        let v6 = (any::<u8>(), 0u8..=128).prop_map(|(low, bits)| {
            let mut address = [0x20; 16];
            (address[7], address[15]) = (low & 3, low);
            Prefix::of(&Source::v6(address, bits), bits)
        });
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn spans_tell_what_a_comparison_with_all_tells(all in prop::collection::vec(prefix(), 0..12), entry in prefix()) {
            let places: Vec<Place> = all.into_iter().map(|prefix| Place { prefix, why: Spared::Own }).collect();
            let spans = Spans::of(places.iter().map(|place| place.prefix));
            prop_assert_eq!(spans.meet(entry), !meeting(&places, entry).is_empty());
        }
    }

    #[test]
    fn entries_are_named_with_what_they_are_not_applied_to() {
        let places = places(&["10.9.0.0/24", "10.9.0.1", "127.0.0.0/8", "fe80::/10"]);
        let entries = ["10.0.0.0/8", "10.9.0.7", "10.9.1.0/24", "192.0.2.1", "fe80::1", "2001:db8::/32"];
        let found = Found::of(&places, entries.map(|entry| entry.parse().unwrap()));
        let lines: Vec<String> = found.lines(2).collect();
        assert_eq!(
            lines,
            [
                "10.0.0.0/8 is not applied to 10.9.0.0/24 (a connected network), 10.9.0.1 (a connected network)",
                "10.9.0.7 is not applied to 10.9.0.0/24 (a connected network)",
                "and 1 more entry",
            ]
        );
        assert_eq!(around(&places, "10.9.0.1".parse().unwrap()).unwrap().prefix.to_string(), "10.9.0.1");
        assert_eq!(around(&places, "10.9.0.0/16".parse().unwrap()), None);
    }
}
