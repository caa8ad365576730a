//! The entries of one list: each prefix once, and none inside another.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ratelimit_base::text::{
    feed::{Bad, Feed},
    prefix::Prefix,
};
use ratelimit_common::identity::source::{IPV4, Source};

/// A list with fewer entries than this may lose any number of them.
const SHORT: usize = 20;

/// A text of which more lines cannot be used than can: it is probably no list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{bad} of {lines} lines cannot be used, such as line {}: {}", first.line, first.why)]
pub struct NoList {
    bad: usize,
    lines: usize,
    first: Bad,
}

/// The entries of one list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    /// IPv4 addresses, as they lie in memory, in ascending order.
    pub addresses: Vec<u32>,
    /// All other prefixes.
    pub prefixes: Vec<Source>,
}

impl Entries {
    /// Returns the entries for these prefixes. Prefixes inside another one change nothing, so they are left out.
    #[must_use]
    pub fn of(mut prefixes: Vec<Prefix>) -> Self {
        // After sorting, prefixes inside another prefix follow it.
        prefixes.sort_unstable();
        let (mut entries, mut around) = (Self::default(), None::<Prefix>);
        for prefix in prefixes {
            if around.is_some_and(|wide| wide.contains(&prefix)) {
                continue;
            }
            around = Some(prefix);
            let source = prefix.source();
            if source.family == IPV4 && source.prefix == 32 {
                entries.addresses.push(source.first_word());
            } else {
                entries.prefixes.push(source);
            }
        }
        entries.addresses.sort_unstable();
        entries
    }

    /// Returns each entry.
    pub fn iter(&self) -> impl Iterator<Item = Prefix> + Clone + '_ {
        let addresses = self.addresses.iter().map(|address| Prefix::host(address.to_ne_bytes().into()));
        addresses.chain(self.prefixes.iter().map(|source| Prefix::of(source, source.prefix)))
    }

    /// Removes the entry that contains a prefix, if there is one.
    pub fn remove_around(&mut self, inner: &Prefix) {
        self.addresses.retain(|address| !Prefix::host(address.to_ne_bytes().into()).contains(inner));
        self.prefixes.retain(|source| !Prefix::of(source, source.prefix).contains(inner));
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.addresses.len() + self.prefixes.len()
    }

    /// Returns a number that differs between different entries, most probably.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.addresses, &self.prefixes).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns in words that a list loses more than half of its entries: a predicate. None if it does not, or may, as it is
/// short.
#[must_use]
pub fn fall(before: usize, after: usize) -> Option<String> {
    (before >= SHORT && 2 * after < before).then(|| format!("falls from {before} to {after} entries"))
}

/// Returns the entries of a feed, and the lines that cannot be used, in order.
///
/// # Errors
///
/// Fails if more lines cannot be used than can.
pub fn of_feed(feed: Feed) -> Result<(Entries, Vec<Bad>), NoList> {
    let Feed { prefixes, usable, bad, .. } = feed;
    match bad.first() {
        Some(first) if bad.len() > usable => {
            Err(NoList { bad: bad.len(), lines: bad.len() + usable, first: first.clone() })
        }
        _ => Ok((Entries::of(prefixes.into_iter().map(|(prefix, _)| prefix).collect()), bad)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &[&str]) -> Entries {
        Entries::of(text.iter().map(|prefix| prefix.parse().unwrap()).collect())
    }

    #[test]
    fn duplicates_and_nested_prefixes_are_left_out() {
        let all = ["10.0.0.1", "192.0.2.9", "10.0.0.0/8", "10.0.0.1", "2001:db8::1", "2001:db8::/32", "10.1.0.0/16"];
        assert_eq!(entries(&all), entries(&["192.0.2.9", "10.0.0.0/8", "2001:db8::/32"]));
        assert_eq!(entries(&all).len(), 3);
        assert!(entries(&[]).is_empty());
    }

    #[test]
    fn an_entry_around_an_address_is_removed() {
        let mut all = entries(&["10.0.0.1", "10.0.0.2", "192.0.2.0/24", "2001:db8::/32"]);
        for inner in ["10.0.0.2", "192.0.2.9", "2001:db8::1", "10.0.0.3"] {
            all.remove_around(&inner.parse().unwrap());
        }
        assert_eq!(all, entries(&["10.0.0.1"]));
    }

    #[test]
    fn a_list_that_is_not_short_loses_half_of_its_entries_at_most() {
        assert_eq!(fall(100, 49).as_deref(), Some("falls from 100 to 49 entries"));
        assert!(fall(20, 0).is_some() && fall(21, 10).is_some());
        assert!(
            [(100, 50), (100, 1_000), (19, 1), (0, 1)].iter().all(|(before, after)| fall(*before, *after).is_none())
        );
    }
}
