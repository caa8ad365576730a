//! What the daemon remembers of requests and limits, behind one lock. Nothing here asks the kernel, so nobody has the lock
//! for long.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_protocol::stops::Place;

use super::{counts::Shown, in_force::InForce};
use crate::config::daemon::stops::Mode;

/// How long it is known that a network may not be limited as a whole.
const PAUSE: Duration = Duration::from_secs(2);
/// The most networks that are remembered.
const NETWORKS: usize = 1_024;
/// Requests in a second. Each asks the kernel several times.
pub(super) const REQUESTS: u32 = 1_000;
/// Limits of other hosts in a second that are checked.
const HEARD: u32 = 200;
/// A second.
const SECOND: Duration = Duration::from_secs(1);

/// What the daemon remembers.
pub(super) struct Ledger {
    proxies: Arc<[Prefix]>,
    /// How often the table of the file has changed.
    changes: u64,
    /// Networks that may not be limited as a whole, and since when that is known.
    narrow: HashMap<Place, Duration>,
    asked: Second,
    heard: Second,
    pub(super) in_force: InForce,
}

/// What the file says, with the number of its change.
pub(super) type Terms = (u64, Arc<[Prefix]>);

/// The beginning of a second, and what has happened in it.
#[derive(Default)]
struct Second(Duration, u32);

impl Second {
    /// Counts one more, unless there were so many.
    fn admits(&mut self, most: u32, now: Duration) -> bool {
        if now.saturating_sub(self.0) >= SECOND {
            *self = Self(now, 0);
        }
        let admits = self.1 < most;
        self.1 += u32::from(admits);
        admits
    }
}

impl Ledger {
    pub(super) fn of(shown: Shown) -> Self {
        Self {
            proxies: Arc::default(),
            changes: 0,
            narrow: HashMap::new(),
            asked: Second::default(),
            heard: Second::default(),
            in_force: InForce::of(shown),
        }
    }

    /// Applies the table of a file.
    pub(super) fn follow(&mut self, mode: Option<Mode>, proxies: &[Prefix]) {
        if *self.proxies != *proxies || self.in_force.mode != mode {
            self.proxies = proxies.into();
            self.changes += 1;
        }
        self.in_force.follow(mode);
    }

    /// Returns the proxies of the file, with the number of its change.
    pub(super) fn terms(&self) -> Terms {
        (self.changes, Arc::clone(&self.proxies))
    }

    /// Returns whether the file has changed since that was read.
    pub(super) fn has_changed_since(&self, terms: &Terms) -> bool {
        self.changes != terms.0
    }

    /// Counts a request of an application. Returns whether there is room for it.
    pub(super) fn admits_request(&mut self, now: Duration) -> bool {
        self.asked.admits(REQUESTS, now)
    }

    /// Counts a limit of another host. Returns whether there is room for it, and something to do about it.
    pub(super) fn admits_heard(&mut self, place: Place, now: Duration) -> bool {
        let is_known = self.in_force.book.in_force_at(place, now);
        self.in_force.mode.is_some() && !is_known && self.heard.admits(HEARD, now)
    }

    /// Returns whether a network around this place is to be limited, if it may be. The check reads all rules.
    pub(super) fn is_wide(&mut self, network: Place, place: Place, now: Duration) -> bool {
        self.narrow.retain(|_, since| now.saturating_sub(*since) < PAUSE);
        let book = &self.in_force.book;
        book.is_wide(network, place, now)
            && !book.in_force_at(network, now)
            && !self.narrow.contains_key(&network)
            && self.narrow.len() < NETWORKS
    }

    /// Notes that a network may not be limited as a whole.
    pub(super) fn note_narrow(&mut self, network: Place, now: Duration) {
        self.narrow.insert(network, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratelimit_protocol::stops::Outcome;

    fn place(text: &str) -> Place {
        Place { source: text.parse().unwrap(), port: 443 }
    }

    #[test]
    fn requests_and_limits_of_other_hosts_are_bounded_in_each_second() {
        let mut ledger = Ledger::of(Shown::default());
        ledger.follow(Some(Mode::Shadow), &[]);
        let begin = Duration::from_secs(5);
        for now in [begin, begin + SECOND] {
            let requests = (0..2 * REQUESTS).filter(|_| ledger.admits_request(now)).count();
            let heard = (0..2 * HEARD).filter(|_| ledger.admits_heard(place("192.0.2.1"), now)).count();
            assert_eq!([requests, heard], [REQUESTS as usize, HEARD as usize]);
            assert!(!ledger.admits_request(now + SECOND - Duration::from_nanos(1)));
        }
        // Without the table, nothing is heard.
        ledger.follow(None, &[]);
        assert!(!ledger.admits_heard(place("192.0.2.1"), begin + 9 * SECOND));
    }

    #[test]
    fn each_change_of_the_table_is_known() {
        let mut ledger = Ledger::of(Shown::default());
        let proxies = ["192.0.2.0/24".parse().unwrap()];
        for (mode, proxies) in [(Some(Mode::On), &[][..]), (Some(Mode::On), &proxies), (Some(Mode::Shadow), &proxies)] {
            let terms = ledger.terms();
            ledger.follow(mode, proxies);
            assert!(ledger.has_changed_since(&terms));
            let terms = ledger.terms();
            ledger.follow(mode, proxies);
            assert!(!ledger.has_changed_since(&terms));
        }
    }

    #[test]
    fn a_network_that_may_not_be_limited_is_checked_again_after_two_seconds() {
        let mut ledger = Ledger::of(Shown::default());
        let (network, own, now) = (place("2001:db8::/64"), place("2001:db8::5"), Duration::from_secs(5));
        assert!(!ledger.is_wide(network, own, now));
        for number in 1..=4 {
            let address = place(&format!("2001:db8::{number}")).source.address();
            assert!(matches!(ledger.in_force.book.ask(address, 443, false, now), Outcome::New { .. }));
        }
        assert!(ledger.is_wide(network, own, now));
        ledger.note_narrow(network, now);
        assert!(!ledger.is_wide(network, own, now + PAUSE - Duration::from_nanos(1)));
        assert!(ledger.is_wide(network, own, now + PAUSE));
        assert!(matches!(ledger.in_force.book.ask(own.source.address(), 443, true, now + PAUSE), Outcome::New { .. }));
        // It is limited now.
        assert!(!ledger.is_wide(network, own, now + PAUSE));
    }
}
