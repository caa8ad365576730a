//! What the hosts of a fleet have told of sources that they deny. Times are nanoseconds of the monotonic clock.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    net::IpAddr,
    time::Duration,
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::identity::source::IPV4;
use ratelimit_fleet::kept::bans::{LONGEST, News, TELLS, Told};

/// The most sources that this host denies because others do.
pub(super) const MOST: usize = 10_000;
/// The most sources of one host.
pub(super) const OF_A_HOST: usize = 2_000;
/// The widest prefixes that hosts tell each other, in bits. By mistake or on purpose, wider ones could cut hosts off.
const WIDEST: [u8; 2] = [16, 32];
/// A difference between two ends that does not matter.
const SAME: Duration = Duration::from_secs(5);

/// What the hosts have told, this one included.
#[derive(Debug)]
pub(super) struct Known {
    /// The name of this host.
    own: String,
    /// The sources that each host denies, with their ends.
    hosts: HashMap<String, HashMap<Prefix, u64>>,
    /// Sources that were told and have no room, since the start.
    pub(super) left_out: u64,
}

impl Known {
    pub(super) fn of(own: &str) -> Self {
        Self { own: own.to_owned(), hosts: HashMap::new(), left_out: 0 }
    }

    /// Takes what hosts have told.
    pub(super) fn hear(&mut self, news: News, now: u64) {
        if news.is_anew {
            // The engine has lost it, so this host tells it again.
            self.hosts.remove(&self.own);
        }
        let mut others = self.of_others().count();
        for Told { source, host, left } in news.told.into_iter().filter(|told| can_travel(&told.source)) {
            if left.is_zero() {
                let gone = self.hosts.get_mut(&host).and_then(|of_host| of_host.remove(&source));
                others -= usize::from(gone.is_some() && host != self.own);
                continue;
            }
            let is_own = host == self.own;
            let of_host = self.hosts.entry(host).or_default();
            let has_room = of_host.len() < OF_A_HOST && (is_own || others < MOST);
            if has_room || of_host.contains_key(&source) {
                let is_new = of_host.insert(source, now.saturating_add(nanoseconds(left))).is_none();
                others += usize::from(is_new && !is_own);
            } else {
                self.left_out += 1;
            }
        }
        self.forget(now);
    }

    /// Forgets what has ended.
    pub(super) fn forget(&mut self, now: u64) {
        self.hosts.retain(|_, of_host| {
            of_host.retain(|_, end| *end > now);
            !of_host.is_empty()
        });
    }

    /// Returns what this host has to tell, if it denies these sources until these times.
    pub(super) fn due(&self, denied: &HashMap<Prefix, u64>, now: u64) -> Vec<(Prefix, Duration)> {
        let mut own: Vec<_> = denied.iter().filter(|(source, end)| **end > now && can_travel(source)).collect();
        own.sort_unstable_by_key(|(source, end)| (Reverse(**end), **source));
        own.truncate(OF_A_HOST);
        let wanted: HashSet<Prefix> = own.iter().map(|(source, _)| **source).collect();
        let told = self.hosts.get(&self.own);
        let lasting = told.into_iter().flatten().filter(|(_, end)| **end > now).map(|(source, _)| source);
        let gone = lasting.filter(|source| !wanted.contains(source)).map(|source| (*source, Duration::ZERO));
        let renewed = own.into_iter().filter_map(|(source, end)| {
            let left = Duration::from_nanos(end - now).min(LONGEST);
            let told = told.and_then(|told| told.get(source)).map_or(0, |end| end.saturating_sub(now));
            let told = Duration::from_nanos(told);
            let is_longer = left > told + SAME && told < LONGEST / 2;
            (is_longer || told > left + SAME || told.is_zero()).then_some((*source, left))
        });
        gone.chain(renewed).take(TELLS).collect()
    }

    /// Returns the number of sources that this host has told of.
    pub(super) fn told(&self) -> usize {
        self.hosts.get(&self.own).map_or(0, HashMap::len)
    }

    /// Returns the sources that other hosts deny, without those that contain an address of `spared`.
    pub(super) fn denied(&self, spared: &[IpAddr]) -> Vec<Prefix> {
        let spared: Vec<Prefix> = spared.iter().map(|address| Prefix::host(address.to_canonical())).collect();
        let is_spared = |source: &Prefix| spared.iter().any(|address| source.contains(address));
        let all: HashSet<Prefix> = self.of_others().map(|(source, _, _)| source).collect();
        let mut all: Vec<Prefix> = all.into_iter().filter(|source| !is_spared(source)).collect();
        all.sort_unstable();
        all
    }

    /// Returns the sources that other hosts deny, with host and end.
    pub(super) fn of_others(&self) -> impl Iterator<Item = (Prefix, &str, u64)> {
        let others = self.hosts.iter().filter(|(host, _)| **host != self.own);
        others.flat_map(|(host, sources)| sources.iter().map(move |(source, end)| (*source, host.as_str(), *end)))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whether hosts tell each other of a source. They do not if it is wide, or means another machine on each host.
fn can_travel(source: &Prefix) -> bool {
    let own = source.source();
    let [first, second, ..] = own.address();
    let is_v4 = own.family == IPV4;
    let is_local = match is_v4 {
        true => matches!(first, 0 | 127 | 224..) || [first, second] == [169, 254],
        false => first == 0xff || first == 0xfe && second >> 6 == 2 || own.address()[..15] == [0; 15],
    };
    source.bits() >= WIDEST[usize::from(!is_v4)] && !is_local
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn told(source: &str, host: &str, seconds: u64) -> Told {
        Told { source: source.parse().unwrap(), host: host.to_owned(), left: Duration::from_secs(seconds) }
    }

    fn news(told: Vec<Told>) -> News {
        News { told, ..News::default() }
    }

    fn denied(sources: &[(&str, u64)]) -> HashMap<Prefix, u64> {
        sources.iter().map(|(source, end)| (source.parse().unwrap(), end.saturating_mul(SECOND))).collect()
    }

    fn texts(prefixes: &[Prefix]) -> Vec<String> {
        prefixes.iter().map(Prefix::to_string).collect()
    }

    #[test]
    fn what_others_deny_ends_by_itself_or_when_they_say_so() {
        let mut known = Known::of("a");
        known.hear(news(vec![told("192.0.2.1", "b", 10), told("192.0.2.2", "b", 20), told("192.0.2.1", "c", 30)]), 0);
        known.hear(news(vec![told("192.0.2.9", "a", 30)]), 0);
        assert_eq!(texts(&known.denied(&[])), ["192.0.2.1", "192.0.2.2"]);
        known.hear(news(vec![told("192.0.2.1", "c", 0)]), 5 * SECOND);
        assert_eq!(texts(&known.denied(&[])), ["192.0.2.1", "192.0.2.2"]);
        known.forget(10 * SECOND);
        assert_eq!(texts(&known.denied(&[])), ["192.0.2.2"]);
        known.forget(20 * SECOND);
        assert_eq!((known.denied(&[]).len(), known.told()), (0, 1));
    }

    #[test]
    fn a_host_tells_what_is_new_longer_shorter_or_gone_and_nothing_else() {
        let mut known = Known::of("a");
        let tells = |known: &Known, sources: &[(&str, u64)], now| {
            let mut due = known.due(&denied(sources), now * SECOND);
            due.sort_unstable();
            due.iter().map(|(source, left)| (source.to_string(), left.as_secs())).collect::<Vec<_>>()
        };
        let due = |source: &str, seconds| (source.to_owned(), seconds);
        let both = [("192.0.2.1", 600), ("192.0.2.2", u64::MAX / SECOND)];
        assert_eq!(tells(&known, &both, 0), [due("192.0.2.1", 600), due("192.0.2.2", 3_600)]);
        known.hear(news(vec![told("192.0.2.1", "a", 600), told("192.0.2.2", "a", 3_600)]), 0);
        assert_eq!(tells(&known, &both, 1), []);
        // A ban becomes longer, and one is lifted.
        assert_eq!(tells(&known, &[("192.0.2.1", 900)], 1), [due("192.0.2.1", 899), due("192.0.2.2", 0)]);
        assert_eq!(tells(&known, &[("192.0.2.1", 60), both[1]], 1), [due("192.0.2.1", 59)]);
        // What does not end is told again after half of the longest time.
        assert_eq!(tells(&known, &both[1..], 1_799), []);
        assert_eq!(tells(&known, &both[1..], 1_801), [due("192.0.2.2", 3_600)]);
        // An engine that has lost everything hears it again.
        known.hear(News { is_anew: true, ..News::default() }, SECOND);
        assert_eq!(tells(&known, &both, 1), [due("192.0.2.1", 599), due("192.0.2.2", 3_600)]);
    }

    #[test]
    fn one_host_cannot_fill_the_place_of_others_and_all_have_an_end() {
        let mut known = Known::of("a");
        let source = |number: usize| format!("198.{}.{}.{}", 18 + number / 65_536, number / 256 % 256, number % 256);
        let flood = |host: &str, from: usize, count: usize| {
            news((from..from + count).map(|number| told(&source(number), host, 60)).collect())
        };
        known.hear(flood("b", 0, OF_A_HOST + 500), 0);
        assert_eq!((known.denied(&[]).len(), known.left_out), (OF_A_HOST, 500));
        for (number, host) in ["c", "d", "e", "f", "g"].into_iter().enumerate() {
            known.hear(flood(host, (1 + number) * OF_A_HOST, OF_A_HOST), 0);
        }
        assert_eq!((known.denied(&[]).len(), known.left_out), (MOST, 500 + OF_A_HOST as u64));
        // Known ones can still be prolonged, and this host can still tell its own.
        known.hear(news(vec![told(&source(0), "b", 600), told("192.0.2.1", "a", 60)]), 0);
        known.forget(60 * SECOND);
        assert_eq!(texts(&known.denied(&[])), ["198.18.0.0"]);
        let many: HashMap<Prefix, u64> =
            (0..OF_A_HOST * 2).map(|it| (source(it).parse().unwrap(), 90 * SECOND)).collect();
        assert_eq!(known.due(&many, 0).len(), TELLS);
    }

    #[test]
    fn local_and_wide_prefixes_do_not_travel_and_sessions_are_spared() {
        let mut known = Known::of("a");
        let all = [
            "127.0.0.1",
            "169.254.1.1",
            "224.0.0.1",
            "0.0.0.0/0",
            "10.0.0.0/8",
            "192.0.0.0/15",
            "::1",
            "fe80::1",
            "ff02::1",
            "2001::/16",
            "::/0",
        ];
        known.hear(news(all.iter().map(|source| told(source, "b", 60)).collect()), 0);
        assert_eq!(known.denied(&[]), []);
        known.hear(
            news(vec![told("10.1.0.0/16", "b", 60), told("2001:db8::/64", "b", 60), told("10.2.0.1", "b", 60)]),
            0,
        );
        let spared: Vec<IpAddr> = ["10.1.2.3", "::ffff:10.2.0.1"].iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(texts(&known.denied(&spared)), ["2001:db8::/64"]);
    }
}
