//! Which requests become limits, and when these end.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use super::{
    place::{self, Place},
    span,
};

/// New limits in any second.
pub(super) const NEW: usize = 100;
/// Limits at a time.
pub(super) const AT_A_TIME: usize = 10_000;
/// Places that are remembered, with and without a limit in force.
pub(super) const REMEMBERED: usize = 2 * AT_A_TIME;
/// Addresses of an IPv6 network that were limited, after which the network is.
pub(super) const ADDRESSES: usize = 4;

/// A second.
const SECOND: Duration = Duration::from_secs(1);

/// All limits that are in force, and those that repetitions count.
#[derive(Debug, Default)]
pub struct Book {
    places: BTreeMap<Place, Entry>,
    /// Places with a limit in force, by its end.
    ends: BTreeSet<(Duration, Place)>,
    /// Places without one, by the end of the last one.
    ended: BTreeSet<(Duration, Place)>,
    /// When the last [`NEW`] limits began.
    begun: VecDeque<Duration>,
    /// The latest time that a caller has passed.
    now: Duration,
}

/// The last limit of a place.
#[derive(Debug, Clone, Copy)]
struct Entry {
    end: Duration,
    /// How many there were, with this one.
    times: u32,
    /// When it began.
    since: Duration,
    /// The end, the number and the beginning of the one before.
    before: Option<(Duration, u32, Duration)>,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A limit begins.
    New {
        /// Where it applies.
        place: Place,
        /// When it ends.
        end: Duration,
        /// How many limits this place has had, with this one.
        times: u32,
    },
    /// A limit is in force already. The request does not prolong it.
    InForce {
        /// Where it applies.
        place: Place,
        /// When it ends.
        end: Duration,
    },
    /// No limit begins.
    Refused(Refusal),
}

/// Why no limit begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many have begun within a second.
    #[error("{NEW} clients were stopped within a second: further ones get only the answer of the application")]
    TooFast,
    /// Another host tells of a whole network, of which too few addresses were limited here.
    #[error("fewer than {ADDRESSES} addresses of the network were stopped here")]
    FewAddresses,
    /// Too many are in force.
    #[error("{AT_A_TIME} clients are stopped: further ones get only the answer of the application")]
    TooMany,
}

impl Book {
    /// Takes a request to limit this address on a port at `now`. `may_widen` says whether the network around an IPv6
    /// address may be limited as a whole.
    pub fn ask(&mut self, address: IpAddr, port: u16, may_widen: bool, now: Duration) -> Outcome {
        let now = self.advance(now);
        let own = Place::of(address, port);
        let network = place::around(address).map(|source| Place { source, port });
        for place in [network, Some(own)].into_iter().flatten() {
            if let Some(entry) = self.places.get(&place).filter(|entry| entry.end > now) {
                return Outcome::InForce { place, end: entry.end };
            }
        }
        let wide = network.filter(|network| may_widen && self.is_wide(*network, own, now));
        self.begin(wide.unwrap_or(own), now)
    }

    /// Takes a limit of a place that another host has told of, with its end. It lasts no longer than the next one that this
    /// host would begin, and a network needs as many limited addresses here.
    pub fn hear(&mut self, place: Place, end: Duration, now: Duration) -> Outcome {
        let now = self.advance(now);
        match self.places.get(&place).filter(|entry| entry.end > now) {
            Some(entry) => Outcome::InForce { place, end: entry.end },
            None if !place.source.is_host() && !self.is_wide(place, place, now) => {
                Outcome::Refused(Refusal::FewAddresses)
            }
            None => self.begin_until(place, Some(end), now),
        }
    }

    /// Ends the limit of a place before its time. The next one counts as a repetition.
    pub fn end(&mut self, place: Place, now: Duration) {
        let now = self.advance(now);
        if let Some(entry) = self.places.get_mut(&place)
            && self.ends.remove(&(entry.end, place))
        {
            entry.end = entry.end.min(now);
            self.ended.insert((entry.end, place));
        }
    }

    /// Takes back the last limit of a place, which never began and has this end. It does not count.
    pub fn take_back(&mut self, place: Place, end: Duration) {
        let Some(entry) = self.places.get(&place).copied().filter(|entry| entry.end == end) else { return };
        self.ends.remove(&(end, place));
        self.ended.remove(&(end, place));
        if let Some(number) = self.begun.iter().rposition(|begun| *begun == entry.since) {
            self.begun.remove(number);
        }
        match entry.before {
            Some((end, times, since)) => {
                self.places.insert(place, Entry { end, times, since, before: None });
                self.ended.insert((end, place));
            }
            None => drop(self.places.remove(&place)),
        }
    }

    /// Returns the places whose limits have ended by `now`, once each.
    pub fn ended(&mut self, now: Duration) -> Vec<Place> {
        let now = self.advance(now);
        let mut ended = Vec::new();
        while let Some((end, place)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.ends.remove(&(end, place));
            self.ended.insert((end, place));
            ended.push(place);
        }
        let is_old = |(end, _): &(Duration, Place)| now.saturating_sub(*end) >= span::MEMORY;
        while let Some((end, place)) = self.ended.first().copied().filter(is_old) {
            self.forget(end, place);
        }
        ended
    }

    /// Returns whether a place has a limit at `now`.
    pub fn in_force_at(&self, place: Place, now: Duration) -> bool {
        self.places.get(&place).is_some_and(|entry| entry.end > now)
    }

    /// Returns the places with a limit whose end [`Self::ended`] has not told yet, and these ends, the next one first.
    #[cfg(test)]
    pub(super) fn in_force(&self) -> impl ExactSizeIterator<Item = (Place, Duration)> + '_ {
        self.ends.iter().map(|(end, place)| (*place, *end))
    }

    /// Returns how many places it remembers.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.places.len()
    }

    /// Returns the time, which never goes back.
    fn advance(&mut self, now: Duration) -> Duration {
        self.now = self.now.max(now);
        self.now
    }

    /// Returns whether a network is to be limited: enough addresses of it other than this one were limited lately, since the
    /// end of the network's last limit.
    pub fn is_wide(&self, network: Place, own: Place, now: Duration) -> bool {
        let lately = now.saturating_sub(span::MEMORY);
        let since = self.places.get(&network).map_or(lately, |last| last.end.max(lately));
        let within = self.places.range(network..).take_while(|(place, _)| network.source.contains(&place.source));
        let others = within
            .filter(|(place, entry)| place.source.is_host() && place.source != own.source && entry.since >= since)
            .map(|(place, _)| place.source);
        // The places of an address stand together.
        let (mut last, mut count) = (network.source, 0);
        for source in others {
            count += usize::from(source != last);
            last = source;
            if count == ADDRESSES {
                return true;
            }
        }
        false
    }

    fn begin(&mut self, place: Place, now: Duration) -> Outcome {
        self.begin_until(place, None, now)
    }

    /// Begins a limit that ends at `most` if it would not end earlier.
    fn begin_until(&mut self, place: Place, most: Option<Duration>, now: Duration) -> Outcome {
        while self.begun.front().is_some_and(|begun| now.saturating_sub(*begun) >= SECOND) {
            self.begun.pop_front();
        }
        if self.begun.len() >= NEW {
            return Outcome::Refused(Refusal::TooFast);
        }
        // A limit counts until its end is told, because it can be in force that long.
        if self.ends.len() >= AT_A_TIME {
            return Outcome::Refused(Refusal::TooMany);
        }
        let before = self.places.get(&place).copied();
        let recent = before.filter(|before| now.saturating_sub(before.end) < span::MEMORY);
        let times = recent.map_or(0, |before| before.times);
        if let Some(before) = before {
            self.ends.remove(&(before.end, place));
            self.ended.remove(&(before.end, place));
        } else if self.places.len() >= REMEMBERED
            && let Some((end, oldest)) = self.ended.first().copied()
        {
            self.forget(end, oldest);
        }
        let end = now.saturating_add(span::next(times));
        let end = most.map_or(end, |most| end.min(most));
        let times = times.saturating_add(1);
        self.begun.push_back(now);
        let before = before.map(|before| (before.end, before.times, before.since));
        self.places.insert(place, Entry { end, times, since: now, before });
        self.ends.insert((end, place));
        Outcome::New { place, end, times }
    }

    fn forget(&mut self, end: Duration, place: Place) {
        self.ended.remove(&(end, place));
        self.places.remove(&place);
    }
}
