//! Which prefixes a host spares.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{identity::source::Source, maps::names::SPARED_MAX, rules::spared::Spared};
use serde::Serialize;

use crate::{
    Error,
    spared::spans::Spans,
    sys::{name_servers, netlink::places},
};

/// A prefix that this host spares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The prefix.
    pub prefix: Prefix,
    /// Why it is spared.
    pub why: Spared,
}

impl Place {
    /// Returns the reason in words.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.why {
            Spared::Gateway => "a gateway",
            Spared::NameServer => "a name server",
            Spared::Own => "an address of this host",
            Spared::Network => "a connected network",
            Spared::FirstLease => "until this host has an IPv4 address",
            Spared::Special => match self.prefix.address() {
                IpAddr::V4(v4) if v4.is_unspecified() => "no address",
                IpAddr::V6(v6) if v6.is_unicast_link_local() => "link-local",
                // The /64 of ::1 is also that of ::.
                _ => "loopback",
            },
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.prefix, self.reason())
    }
}

/// A place in the output.
#[derive(Debug, Clone, Serialize)]
pub struct PlaceRow {
    source: String,
    why: &'static str,
}

impl fmt::Display for PlaceRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.source, self.why)
    }
}

impl From<&Place> for PlaceRow {
    fn from(place: &Place) -> Self {
        Self { source: place.prefix.to_string(), why: place.reason() }
    }
}

/// What this host is connected to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Its addresses.
    pub own: BTreeSet<IpAddr>,
    /// The gateways of its routes. None if the kernel does not list the routes, for example because they are too many.
    pub gateways: Option<BTreeSet<IpAddr>>,
    /// The servers that it asks for names.
    pub name_servers: BTreeSet<IpAddr>,
    /// The networks of its interfaces.
    pub networks: BTreeSet<Prefix>,
    /// Networks that routes name. A router on the link can have announced them, or whoever forges its messages.
    pub learned: BTreeSet<Prefix>,
}

/// The widest networks of addresses that count, in IPv4 and in IPv6: those of an operator, or of a DHCP server. A wider one
/// is a mistake, or a way of everything into a tunnel. Within private IPv4 networks, all count.
const WIDEST: [u8; 2] = [16, 32];
/// The same of routes. The prefix of a router has 64 bits, and no site has more than a /48.
const WIDEST_LEARNED: [u8; 2] = [16, 48];

impl Surroundings {
    /// Asks the kernel, and reads the files that name servers.
    ///
    /// # Errors
    ///
    /// [`Error::Netlink`] if the kernel does not tell the addresses of interfaces.
    pub fn read() -> Result<Self, Error> {
        let (addresses, routes) = (places::addresses()?, places::routes().ok());
        let learned = routes.iter().flat_map(|routes| &routes.networks).copied().collect();
        Ok(Self {
            own: canonical(addresses.own),
            networks: addresses.networks.into_iter().collect(),
            learned,
            gateways: routes.map(|routes| canonical(routes.gateways)),
            name_servers: canonical(name_servers::all()),
        })
    }

    /// Keeps the gateways and networks that were known, since the routes are not.
    pub(super) fn keep(&mut self, known: &[Place]) {
        let of = |why| known.iter().filter(move |place| place.why == why).map(|place| place.prefix);
        self.gateways = Some(of(Spared::Gateway).map(|prefix| prefix.address()).collect());
        self.learned = of(Spared::Network).collect();
    }

    /// Returns what is to be spared, in order, if so many bits of an IPv6 address make a source.
    #[must_use]
    pub fn places(&self, ipv6_prefix: u8) -> Vec<Place> {
        let mut found = BTreeMap::<Prefix, Spared>::new();
        let special = special().map(|prefix| of_source(prefix, ipv6_prefix));
        let mut add = |prefix: Prefix, why: Spared| {
            let prefix = of_source(prefix, ipv6_prefix);
            if why != Spared::Special && special.iter().any(|around| around.contains(&prefix)) {
                return;
            }
            found.entry(prefix).and_modify(|known| *known = why.min(*known)).or_insert(why);
        };
        special.iter().for_each(|prefix| add(*prefix, Spared::Special));
        let each = |addresses: &BTreeSet<IpAddr>| addresses.iter().copied().map(Prefix::host).collect::<Vec<_>>();
        self.gateways.iter().flat_map(each).for_each(|prefix| add(prefix, Spared::Gateway));
        each(&self.name_servers).into_iter().for_each(|prefix| add(prefix, Spared::NameServer));
        each(&self.own).into_iter().for_each(|prefix| add(prefix, Spared::Own));
        for (networks, widest) in [(&self.networks, WIDEST), (&self.learned, WIDEST_LEARNED)] {
            let networks = networks.iter().filter(|network| counts(network, widest));
            networks.for_each(|network| add(*network, Spared::Network));
        }
        if !self.own.iter().any(is_of_a_network) {
            first_lease().into_iter().for_each(|prefix| add(prefix, Spared::FirstLease));
        }
        found.into_iter().map(|(prefix, why)| Place { prefix, why }).collect()
    }
}

/// Returns those of all places for which the map has room, and how many are left out.
pub(super) fn fitting(mut places: Vec<Place>) -> (Vec<Place>, usize) {
    let most = SPARED_MAX as usize;
    if places.len() > most {
        // The networks spare them.
        let networks = places.iter().filter(|place| place.why == Spared::Network);
        let spans = Spans::of(networks.map(|place| place.prefix));
        places.retain(|place| place.why != Spared::Own || !spans.meet(place.prefix));
    }
    // Of too many, those with the best reasons stay. A host can have thousands of addresses of services.
    places.sort_by_key(|place| (place.why == Spared::Own, place.why != Spared::Special, place.why, place.prefix));
    let left_out = places.len().saturating_sub(most);
    places.truncate(most);
    places.sort_unstable();
    (places, left_out)
}

/// Returns addresses in the form that packets have.
fn canonical(addresses: impl IntoIterator<Item = IpAddr>) -> BTreeSet<IpAddr> {
    addresses.into_iter().map(|address| address.to_canonical()).collect()
}

/// Returns the prefix, or the whole source that it is a part of.
fn of_source(prefix: Prefix, ipv6_prefix: u8) -> Prefix {
    let source = prefix.source();
    let bits = source.prefix.min(source.bits(ipv6_prefix));
    Prefix::of(&source.shortened(bits), bits)
}

/// Returns whether a network is not wider than the widest that counts.
fn counts(network: &Prefix, widest: [u8; 2]) -> bool {
    let [v4, v6] = widest;
    network.bits() >= if network.address().is_ipv4() { v4 } else { v6 }
        || first_lease().iter().any(|private| private.contains(network))
}

/// Returns whether a host with this address is in an IPv4 network: it has its lease, or needs none.
fn is_of_a_network(own: &IpAddr) -> bool {
    matches!(own, IpAddr::V4(v4) if !v4.is_loopback() && !v4.is_link_local())
}

/// The networks in which DHCP servers are (RFC 1918, RFC 6598, RFC 3927). Nothing else arrives at a host without an
/// address.
fn first_lease() -> [Prefix; 5] {
    [([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16), ([100, 64, 0, 0], 10), ([169, 254, 0, 0], 16)]
        .map(|(address, bits)| Prefix::of(&Source::v4(address).shortened(bits), bits))
}

/// What every host spares: loopback, the addresses that stand for none, and the links of IPv6, which no router forwards.
fn special() -> [Prefix; 5] {
    let v4 = |address, bits| Prefix::of(&Source::v4(address).shortened(bits), bits);
    let v6 = |address: Ipv6Addr, bits| Prefix::of(&Source::v6(address.octets(), bits), bits);
    [
        v4(Ipv4Addr::LOCALHOST.octets(), 8),
        v4(Ipv4Addr::UNSPECIFIED.octets(), 32),
        v6(Ipv6Addr::LOCALHOST, 128),
        v6(Ipv6Addr::UNSPECIFIED, 128),
        v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(all: &[&str]) -> BTreeSet<IpAddr> {
        all.iter().map(|address| address.parse().unwrap()).collect()
    }

    fn places(own: &[&str], gateways: &[&str], name_servers: &[&str], networks: &[&str]) -> Vec<String> {
        let surroundings = Surroundings {
            own: addresses(own),
            gateways: Some(addresses(gateways)),
            name_servers: addresses(name_servers),
            networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
            learned: BTreeSet::new(),
        };
        surroundings.places(64).iter().map(Place::to_string).collect()
    }

    const ALWAYS: [&str; 4] =
        ["0.0.0.0 (no address)", "127.0.0.0/8 (loopback)", "::/64 (loopback)", "fe80::/10 (link-local)"];

    #[test]
    fn a_host_spares_its_own_network_and_the_best_reason_is_given() {
        let found = places(
            &["127.0.0.1", "10.9.0.2", "2001:db8:1::2"],
            &["10.9.0.1", "2001:db8:1::1"],
            &["10.9.0.1", "192.0.2.53", "127.0.0.53"],
            &["127.0.0.0/8", "10.9.0.0/24", "2001:db8:1::/64"],
        );
        let mut expected = ALWAYS.map(str::to_owned).to_vec();
        expected.extend(
            [
                "10.9.0.0/24 (a connected network)",
                "10.9.0.1 (a gateway)",
                "10.9.0.2 (an address of this host)",
                "192.0.2.53 (a name server)",
                // The gateway, the address and the network are one source.
                "2001:db8:1::/64 (a gateway)",
            ]
            .map(str::to_owned),
        );
        let sorted = |mut all: Vec<String>| {
            all.sort();
            all
        };
        assert_eq!(sorted(found), sorted(expected));
    }

    #[test]
    fn a_network_of_everything_spares_nothing() {
        let found = places(&["192.0.2.1"], &[], &[], &["0.0.0.0/0", "0.0.0.0/1", "::/0"]);
        assert_eq!(found.len(), ALWAYS.len() + 1, "{found:?}");
    }

    /// A router advertisement can have any prefix, and anybody on the link can forge one.
    #[test]
    fn networks_that_are_too_wide_are_no_networks_of_this_host() {
        let network = |text: &str| text.parse::<Prefix>().unwrap();
        let spared = |networks: &[&str], learned: &[&str]| {
            let all = |texts: &[&str]| texts.iter().map(|text| network(text)).collect();
            let host = Surroundings { networks: all(networks), learned: all(learned), ..Surroundings::default() };
            let places = host.places(64).into_iter().filter(|place| place.why == Spared::Network);
            places.map(|place| place.prefix.to_string()).collect::<Vec<_>>()
        };
        let wide =
            ["2001::/16", "2a00::/16", "2000::/3", "2001:db8::/32", "2001:db8::/47", "203.0.0.0/15", "64.0.0.0/2"];
        assert_eq!(spared(&[], &wide), [""; 0]);
        assert_eq!(spared(&wide, &[]), ["2001:db8::/32", "2001:db8::/47"]);
        assert_eq!(spared(&[], &["203.0.0.0/16", "2001:db8:1::/48", "2001:db8:2::/64"]).len(), 3);
        // A whole private network is usual in a laboratory.
        assert_eq!(spared(&["10.0.0.0/8", "172.16.0.0/12", "100.64.0.0/10", "172.0.0.0/8"], &[]).len(), 3);
    }

    #[test]
    fn networks_of_dhcp_servers_are_spared_until_there_is_an_address() {
        let has = |own: &[&str]| places(own, &[], &[], &[]).iter().any(|place| place.starts_with("192.168.0.0/16"));
        assert!(has(&["127.0.0.1", "::1", "169.254.7.7", "2001:db8::1"]));
        assert!(!has(&["127.0.0.1", "192.0.2.1"]));
    }

    #[test]
    fn what_is_too_much_is_left_out_with_the_least_reasons() {
        let networks: Vec<String> =
            (0..5_000u32).map(|number| format!("{}/32", Ipv4Addr::from(0x0a00_0000 + number))).collect();
        let networks: Vec<&str> = networks.iter().map(String::as_str).collect();
        let kept = |own: &[&str], networks: &[&str]| {
            let parsed = networks.iter().map(|network| network.parse().unwrap()).collect();
            let gateways = Some(addresses(&["192.0.2.254"]));
            let host = Surroundings { own: addresses(own), gateways, networks: parsed, ..Surroundings::default() };
            let (kept, left_out) = fitting(host.places(64));
            (kept.iter().map(Place::to_string).collect::<Vec<_>>(), left_out)
        };
        let (found, left_out) = kept(&["192.0.2.1"], &networks);
        assert_eq!((found.len(), left_out), (SPARED_MAX as usize, 5_000 + 6 - SPARED_MAX as usize));
        assert!(ALWAYS.iter().all(|always| found.contains(&(*always).to_owned())));
        assert!(found.contains(&"192.0.2.254 (a gateway)".to_owned()));
        // Addresses of services: those within a network need no entry, and others leave the networks their room.
        let own: Vec<&str> = networks.iter().map(|network| network.trim_end_matches("/32")).collect();
        let (found, left_out) = kept(&own, &["10.0.0.0/16", "198.51.100.0/24"]);
        assert_eq!((found.len(), left_out), (ALWAYS.len() + 3, 0));
        let (found, left_out) = kept(&own, &["198.51.100.0/24"]);
        assert_eq!((found.len(), left_out), (SPARED_MAX as usize, 5_000 + 6 - SPARED_MAX as usize));
        assert!(found.contains(&"198.51.100.0/24 (a connected network)".to_owned()));
    }
}
