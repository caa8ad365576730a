//! Addresses that no request limits: many clients share them, this host needs them, or the operator decides about them.

mod known;
mod penalty;

use std::{collections::BTreeSet, net::IpAddr};

use ratelimit_base::text::{prefix::Prefix, service::ServiceName};
use ratelimit_common::{
    identity::service::{Service, Transport},
    rules::rule::APPLICATION,
};
use ratelimit_dataplane::{
    Error,
    decision::{self, Voice},
    rules::{
        list::around,
        services::Services,
        spec::RuleSpec,
        target::{Sources, Target},
    },
    spared::place::Surroundings,
    tables::open::Tables,
};
use ratelimit_protocol::stops::Place;

pub(super) use self::known::Looks;

/// Why an address, or a network of addresses, is not limited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Spared {
    /// It names no host outside.
    #[error("{0} is a loopback, link-local, multicast or unspecified address")]
    Special(Prefix),
    /// The file names it.
    #[error("{0} is within {1} of trusted-proxies, or contains it")]
    Proxy(Prefix, Prefix),
    /// It belongs to this host.
    #[error("{0} is or contains {1}, an address of this host")]
    Own(Prefix, IpAddr),
    /// Packets of this host leave through it.
    #[error("{0} is or contains {1}, a gateway of this host")]
    Gateway(Prefix, IpAddr),
    /// This host asks it for names.
    #[error("{0} is or contains {1}, a name server of this host")]
    NameServer(Prefix, IpAddr),
    /// Operators come through it.
    #[error("port {0} is that of the SSH server")]
    Ssh(u16),
    /// An SSH session comes from it.
    #[error("{0} is or contains {1}, from which an SSH session comes")]
    Session(Prefix, IpAddr),
}

/// What the daemon knows of its host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Host {
    /// Its addresses.
    pub(super) own: BTreeSet<IpAddr>,
    /// The gateways of its routes.
    pub(super) gateways: BTreeSet<IpAddr>,
    /// The servers that it asks for names.
    pub(super) name_servers: BTreeSet<IpAddr>,
}

impl Host {
    /// Asks the kernel.
    pub(super) fn read() -> Result<Self, Error> {
        let Surroundings { own, gateways, name_servers, .. } = Surroundings::read()?;
        let gateways = gateways.ok_or_else(|| Error::Netlink("the routes of this host cannot be listed".to_owned()))?;
        Ok(Self { own, gateways, name_servers })
    }

    /// Returns why this source is not limited, whatever the rules are. `sessions` are the addresses of SSH clients.
    pub(super) fn spares(&self, source: Prefix, proxies: &[Prefix], sessions: &BTreeSet<IpAddr>) -> Option<Spared> {
        if source.is_host() && is_special(source) {
            return Some(Spared::Special(source));
        }
        if let Some(proxy) = proxies.iter().find(|proxy| proxy.contains(&source) || source.contains(proxy)) {
            return Some(Spared::Proxy(source, *proxy));
        }
        // There can be very many.
        let within = |all: &BTreeSet<IpAddr>| {
            let next = all.range(source.address()..).next().copied();
            next.filter(|address| source.contains(&Prefix::host(*address)))
        };
        within(&self.own)
            .map(|own| Spared::Own(source, own))
            .or_else(|| within(&self.gateways).map(|gateway| Spared::Gateway(source, gateway)))
            .or_else(|| within(&self.name_servers).map(|server| Spared::NameServer(source, server)))
            .or_else(|| within(sessions).map(|peer| Spared::Session(source, peer)))
    }
}

/// Returns addresses in the form that packets have.
fn canonical(addresses: impl IntoIterator<Item = IpAddr>) -> BTreeSet<IpAddr> {
    addresses.into_iter().map(|address| address.to_canonical()).collect()
}

fn is_special(source: Prefix) -> bool {
    match source.address() {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_link_local() || v4.is_multicast() || v4.is_unspecified() || v4.is_broadcast()
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local() || v6.is_multicast() || v6.is_unspecified(),
    }
}

/// Returns the limit of a place for an application. Otherwise why the operator decides about it: a rule for a prefix
/// around or inside it, a list or a ban applies, or would without something that outranks it, or the default limit is
/// hardly above the one for an application.
pub(super) fn limit(tables: &Tables, place: &Place) -> Result<Result<RuleSpec, String>, Error> {
    let Place { source, port } = place;
    let services = Services::read(tables)?;
    let service = services.of_port(Transport::Tcp, *port);
    if service != Service::port(Transport::Tcp, *port) {
        return Ok(Err(format!("rules are about the ports {} as a whole", ServiceName(service))));
    }
    let decision = decision::of(tables, source, services.classes(service))?;
    let mut default = None;
    for voice in decision.decides.iter().chain(&decision.outranked) {
        match voice {
            Voice::Rule(rule) if rule.origin == APPLICATION => {}
            Voice::Rule(rule) if rule.target.sources == Sources::Default => drop(default.get_or_insert(&rule.spec)),
            Voice::Rule(rule) => return Ok(Err(format!("a rule or a ban for {} decides about {source}", rule.target))),
            Voice::List(list) => return Ok(Err(format!("the list {} has {source}", list.name))),
        }
    }
    if !source.is_host() && has_rules_inside(tables, *source)? {
        return Ok(Err(format!("rules are about parts of {source}")));
    }
    let as_strict =
        || format!("the default limit of {source} bans, or admits hardly more than a stopped client may send");
    Ok(penalty::of(default.map(AsRef::as_ref)).ok_or_else(as_strict))
}

/// Returns whether a network can be limited as a whole: it is no more than one source, and no rule is about a part of it.
pub(super) fn is_whole(tables: &Tables, network: Prefix) -> Result<bool, Error> {
    Ok(tables.control()?.ipv6_prefix <= u32::from(network.bits()) && !has_rules_inside(tables, network)?)
}

fn has_rules_inside(tables: &Tables, network: Prefix) -> Result<bool, Error> {
    Ok(around::inside(tables, Target::prefix(network))?.iter().any(|rule| rule.origin != APPLICATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    /// Returns why a source is spared on a host with one address, one gateway, one proxy network and one session in
    /// each family.
    fn spares(source: &str) -> Option<Spared> {
        let each = |texts: [&str; 2]| canonical(texts.map(|text| text.parse().unwrap()));
        let host = Host {
            own: each(["192.0.2.1", "2001:db8:1::1"]),
            gateways: each(["192.0.2.254", "2001:db8:2::1"]),
            name_servers: each(["192.0.2.53", "2001:db8:53::1"]),
        };
        let sessions = each(["::ffff:203.0.113.9", "2001:db8:3::9"]);
        host.spares(prefix(source), &[prefix("198.51.100.0/24"), prefix("2001:db8:4::/65")], &sessions)
    }

    #[test]
    fn proxies_gateways_sessions_and_own_addresses_are_spared() {
        for source in ["198.51.100.0", "198.51.100.255", "2001:db8:4::1", "2001:db8:4::/64"] {
            assert!(matches!(spares(source), Some(Spared::Proxy(..))), "{source}");
        }
        for source in ["192.0.2.1", "2001:db8:1::1", "2001:db8:1::/64"] {
            assert!(matches!(spares(source), Some(Spared::Own(..))), "{source}");
        }
        for source in ["192.0.2.254", "2001:db8:2::1", "2001:db8:2::/64"] {
            assert!(matches!(spares(source), Some(Spared::Gateway(..))), "{source}");
        }
        for source in ["192.0.2.53", "2001:db8:53::1"] {
            assert!(matches!(spares(source), Some(Spared::NameServer(..))), "{source}");
        }
        for source in ["203.0.113.9", "2001:db8:3::9", "2001:db8:3::/64"] {
            assert!(matches!(spares(source), Some(Spared::Session(..))), "{source}");
        }
        for source in ["127.0.0.1", "169.254.1.1", "224.0.0.1", "0.0.0.0", "::1", "fe80::1", "ff02::1", "::"] {
            assert!(matches!(spares(source), Some(Spared::Special(_))), "{source}");
        }
    }

    #[test]
    fn their_neighbours_are_not_spared() {
        for source in ["192.0.2.2", "203.0.113.8", "198.51.101.0", "2001:db8:1::2", "2001:db8:4:0:8000::1"] {
            assert_eq!(spares(source), None, "{source}");
        }
    }
}
