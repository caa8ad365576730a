//! The decisions that stand, and the sources that they deny.

use std::{collections::HashMap, net::IpAddr};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_dataplane::lists::entries::Entries;

use super::answer::{Answer, Decision};

/// The most decisions about IPv4 addresses.
const MOST_ADDRESSES: usize = 500_000;
/// The most other decisions: attackers with many IPv6 addresses must leave space for other lists.
const MOST_PREFIXES: usize = 200_000;

/// A decision that stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    source: Prefix,
    /// Nanoseconds of the monotonic clock.
    end: u64,
}

/// The decisions that stand.
#[derive(Debug, Default)]
pub struct Decisions {
    by_id: HashMap<i64, Standing>,
    /// How many of them are about IPv4 addresses.
    addresses: usize,
    /// Decisions for which there was no space.
    left_out: usize,
    /// Decisions that are not put in force, since all were told.
    ignored: usize,
    /// No decision ends before this time.
    next_end: u64,
}

impl Decisions {
    /// Takes an answer with all decisions.
    pub fn replace(&mut self, answer: &Answer, now: u64) {
        *self = Self::default();
        self.change(answer, now);
    }

    /// Takes an answer with changes. A decision that both begins and ends in it has ended. Returns whether decisions in
    /// force can have changed: the API tells of an end several times.
    pub fn change(&mut self, answer: &Answer, now: u64) -> bool {
        self.ignored += answer.ignored;
        answer.new.iter().for_each(|decision| self.add(decision, now));
        let ended = answer.deleted.iter().filter(|id| self.remove(**id)).count();
        ended != 0 || !answer.new.is_empty()
    }

    fn add(&mut self, Decision { id, source, left }: &Decision, now: u64) {
        self.remove(*id);
        let end = now.saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        if end <= now {
            return;
        }
        let (has, most) = if is_address(source) {
            (self.addresses, MOST_ADDRESSES)
        } else {
            (self.by_id.len() - self.addresses, MOST_PREFIXES)
        };
        if has >= most {
            self.left_out += 1;
            return;
        }
        self.addresses += usize::from(is_address(source));
        self.next_end = if self.by_id.is_empty() { end } else { self.next_end.min(end) };
        self.by_id.insert(*id, Standing { source: *source, end });
    }

    /// Returns whether there was such a decision.
    fn remove(&mut self, id: i64) -> bool {
        let removed = self.by_id.remove(&id);
        self.addresses -= usize::from(removed.is_some_and(|standing| is_address(&standing.source)));
        removed.is_some()
    }

    /// Forgets decisions that have ended by themselves. Returns whether there were any.
    pub fn expire(&mut self, now: u64) -> bool {
        if self.by_id.is_empty() || now < self.next_end {
            return false;
        }
        let before = self.by_id.len();
        self.by_id.retain(|_, standing| now < standing.end);
        self.addresses = self.by_id.values().filter(|standing| is_address(&standing.source)).count();
        self.next_end = self.by_id.values().map(|standing| standing.end).min().unwrap_or(u64::MAX);
        self.by_id.len() != before
    }

    /// Returns the sources that decisions deny, but none with the address of a session.
    pub fn denied(&self, sessions: &[IpAddr]) -> Entries {
        let sessions: Vec<Prefix> = sessions.iter().map(|session| Prefix::host(session.to_canonical())).collect();
        let sources = self.by_id.values().map(|standing| standing.source);
        Entries::of(sources.filter(|source| !sessions.iter().any(|session| source.contains(session))).collect())
    }

    /// Returns when the last decision ends. None without any.
    pub fn last_end(&self) -> Option<u64> {
        self.by_id.values().map(|standing| standing.end).max()
    }

    /// Returns the number of decisions that stand.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the number of decisions that had no space, since all were told.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the number of decisions that are not put in force, since all were told.
    pub fn ignored(&self) -> usize {
        self.ignored
    }
}

#[cfg(test)]
impl Decisions {
    /// Returns none, after one had no space.
    pub fn without_space() -> Self {
        Self { left_out: 1, ..Self::default() }
    }
}

fn is_address(source: &Prefix) -> bool {
    source.is_host() && source.address().is_ipv4()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn decision(id: i64, source: &str, seconds: u64) -> Decision {
        Decision { id, source: source.parse().unwrap(), left: Duration::from_secs(seconds) }
    }

    fn answer(new: &[Decision], deleted: &[i64]) -> Answer {
        Answer { new: new.to_vec(), deleted: deleted.to_vec(), ..Answer::default() }
    }

    fn denied(decisions: &Decisions) -> Vec<String> {
        decisions.denied(&[]).iter().map(|prefix| prefix.to_string()).collect()
    }

    #[test]
    fn a_source_is_denied_until_its_last_decision_ends() {
        let mut decisions = Decisions::default();
        decisions.replace(&answer(&[decision(1, "192.0.2.1", 60), decision(2, "192.0.2.1", 30)], &[]), 0);
        assert!(decisions.change(&answer(&[], &[1, 99]), SECOND));
        assert!(!decisions.change(&answer(&[], &[1, 99]), SECOND));
        assert_eq!(denied(&decisions), ["192.0.2.1"]);
        // A longer decision about the same source begins, and the shorter one ends by itself.
        decisions.change(&answer(&[decision(3, "192.0.2.1", 60)], &[]), SECOND);
        assert!(!decisions.expire(29 * SECOND) && decisions.expire(30 * SECOND));
        assert_eq!((denied(&decisions).len(), decisions.last_end()), (1, Some(61 * SECOND)));
        decisions.change(&answer(&[], &[3]), 31 * SECOND);
        assert_eq!((denied(&decisions).len(), decisions.count(), decisions.last_end()), (0, 0, None));
    }

    #[test]
    fn the_end_of_a_range_leaves_the_addresses_in_it_that_have_decisions() {
        let mut decisions = Decisions::default();
        decisions.replace(&answer(&[decision(1, "192.0.2.0/24", 9), decision(2, "192.0.2.1", 9)], &[]), 0);
        assert_eq!(denied(&decisions), ["192.0.2.0/24"]);
        decisions.change(&answer(&[], &[1]), 0);
        assert_eq!(denied(&decisions), ["192.0.2.1"]);
    }

    #[test]
    fn no_source_with_a_session_is_denied() {
        let mut decisions = Decisions::default();
        let new = [decision(1, "192.0.2.0/24", 9), decision(2, "198.51.100.1", 9), decision(3, "2001:db8::/32", 9)];
        decisions.replace(&answer(&new, &[]), 0);
        let sessions = ["::ffff:192.0.2.77", "2001:db8::9"].map(|address| address.parse().unwrap());
        assert_eq!(decisions.denied(&sessions).len(), 1);
        assert_eq!(denied(&decisions).len(), 3);
    }

    #[test]
    fn a_flood_of_decisions_about_ipv6_leaves_space_for_those_about_ipv4() {
        let each = (0..MOST_PREFIXES as u128 + 5).map(|at| Decision {
            id: at as i64,
            source: Prefix::host(IpAddr::V6((1u128 << 125 | at).into())),
            left: Duration::from_secs(1),
        });
        let mut decisions = Decisions::default();
        decisions.replace(&answer(&each.collect::<Vec<_>>(), &[]), 0);
        decisions.change(&answer(&[decision(-1, "192.0.2.1", 9)], &[]), 0);
        assert_eq!((decisions.count(), decisions.left_out()), (MOST_PREFIXES + 1, 5));
    }

    proptest! {
        /// Any answers give the same as a list that is searched from its beginning.
        #[test]
        fn any_answers_leave_exactly_the_decisions_that_stand(
            steps in prop::collection::vec((prop::collection::vec((0i64..8, 0u8..6, 0u64..5), 0..5), prop::collection::vec(0i64..8, 0..3)), 0..12),
        ) {
            let (mut decisions, mut model) = (Decisions::default(), Vec::<(i64, u8, u64)>::new());
            for (now, (new, deleted)) in (0u64..).zip(steps) {
                let source = |host: u8| format!("192.0.2.{host}");
                let each: Vec<_> = new.iter().map(|(id, host, left)| decision(*id, &source(*host), *left)).collect();
                decisions.expire(now * SECOND);
                decisions.change(&answer(&each, &deleted), now * SECOND);
                for (id, host, left) in new {
                    model.retain(|(other, ..)| *other != id);
                    model.push((id, host, now + left));
                }
                model.retain(|(id, _, end)| !deleted.contains(id) && now < *end);
                let mut expected: Vec<_> = model.iter().map(|(_, host, _)| source(*host)).collect();
                expected.sort();
                expected.dedup();
                let mut found = denied(&decisions);
                found.sort();
                prop_assert_eq!(found, expected);
                prop_assert_eq!(decisions.addresses, decisions.count());
                prop_assert_eq!(decisions.last_end(), model.iter().map(|(_, _, end)| end * SECOND).max());
            }
        }
    }
}
