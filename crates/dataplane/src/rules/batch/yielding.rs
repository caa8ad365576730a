//! Which rules for applications give way to rules and lists of an operator. The search takes as long as the change is
//! large, if it names addresses. Otherwise it reads all rules, if the instance can have rules for applications.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    path::Path,
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{
        class::Class,
        service::{Service, TCP, Transport},
    },
    rules::rule::APPLICATION,
};

use super::applications::{all, is_for, is_marked, ports, unmark};
use crate::{
    Error,
    rules::{
        batch::Change,
        rule_key::Place,
        target::{Sources, Target},
    },
    tables::open::Tables,
};

/// The most places that are looked up. Reading all rules takes less time than more.
const MOST: usize = 50_000;

/// The sources of rules or of a list.
#[derive(Default)]
struct Prefixes(BTreeSet<Prefix>);

impl Prefixes {
    /// Returns whether one of them is around a prefix, or inside it.
    fn meet(&self, prefix: &Prefix) -> bool {
        let around = |bits: u8| Prefix::of(&prefix.source().shortened(bits), bits);
        (0..prefix.bits()).any(|bits| self.0.contains(&around(bits)))
            || self.0.range(*prefix..).next().is_some_and(|other| prefix.contains(other))
    }
}

/// Returns the targets of rules for applications that rules for these targets would meet. Rules of maps that are not
/// pinned have no mark.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn met_by(
    pins: Option<&Path>,
    tables: &Tables,
    others: impl Iterator<Item = Target> + Clone,
) -> Result<Vec<Target>, Error> {
    if pins.is_some_and(|pins| !is_marked(pins)) {
        return Ok(Vec::new());
    }
    let ports = ports(tables)?;
    let places = places(others.clone(), &ports);
    if let Some(places) = places {
        return found(tables, places);
    }
    let mut all = all(tables)?;
    if all.is_empty() {
        pins.map_or(Ok(()), |pins| unmark(pins, tables))?;
        return Ok(all);
    }
    let mut written: HashMap<Service, (bool, Prefixes)> = HashMap::new();
    for Target { sources, service } in others {
        let (has_default, prefixes) = written.entry(service).or_default();
        match sources {
            Sources::Default => *has_default = true,
            Sources::Prefix(prefix) => drop(prefixes.0.insert(prefix)),
        }
    }
    all.retain(|target| {
        let Sources::Prefix(prefix) = target.sources else { return false };
        let mut same = written.iter().filter(|(service, _)| may_share(**service, target.service));
        same.any(|(_, (has_default, prefixes))| *has_default || prefixes.meet(&prefix))
    });
    Ok(all)
}

/// Returns where rules for applications can be that meet these targets: at the same address, or around it. None if there are
/// too many such places, because a target has many addresses.
fn places(
    others: impl Iterator<Item = Target>,
    ports: &[(Service, Class)],
) -> Option<BTreeSet<(Prefix, Service, Class)>> {
    let mut places = BTreeSet::new();
    for Target { sources, service } in others {
        let Sources::Prefix(prefix) = sources else { return None };
        if !prefix.is_host() || places.len() > MOST {
            return None;
        }
        for (port, class) in ports.iter().filter(|(port, _)| may_share(service, *port)) {
            places.extend([prefix, Prefix::network_of(prefix.address())].map(|prefix| (prefix, *port, *class)));
        }
    }
    Some(places)
}

/// Returns the targets of rules for applications in these places.
fn found(tables: &Tables, places: BTreeSet<(Prefix, Service, Class)>) -> Result<Vec<Target>, Error> {
    let ipv6_prefix = tables.control()?.ipv6_prefix;
    let mut found = Vec::new();
    for (prefix, port, class) in places {
        if Place::of(&prefix, class, ipv6_prefix).get(tables)?.is_some_and(|rule| rule.origin == APPLICATION) {
            found.push(Target::prefix(prefix).of(port));
        }
    }
    Ok(found)
}

/// Returns the change that also deletes the rules for applications that its own rules meet.
pub(super) fn yielding<'c>(pins: Option<&Path>, tables: &Tables, change: &'c Change) -> Result<Cow<'c, Change>, Error> {
    if change.rules.is_empty() || is_for(change) {
        return Ok(Cow::Borrowed(change));
    }
    let mut met = met_by(pins, tables, change.rules.iter().map(|rule| rule.target))?;
    let own: BTreeSet<Target> = change.targets().collect();
    met.retain(|target| !own.contains(target));
    if met.is_empty() {
        return Ok(Cow::Borrowed(change));
    }
    let mut change = change.clone();
    change.deleted.extend(met);
    Ok(Cow::Owned(change))
}

/// Returns whether packets to a TCP port can be of another service too.
fn may_share(service: Service, port: Service) -> bool {
    match service {
        Service::Any | Service::TcpSyn | Service::Protocol(TCP) => true,
        Service::Ports(Transport::Tcp, ..) => service.overlaps(port) || service == port,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_meets_the_prefixes_around_and_inside_its_own() {
        let all = ["10.0.0.0/8", "192.0.2.7", "2001:db8:0:1::/64", "2001:db8:0:2::5"];
        let prefixes = Prefixes(all.iter().map(|prefix| prefix.parse().unwrap()).collect());
        for (prefix, expected) in [
            ("10.1.2.3", true),
            ("11.0.0.0", false),
            ("192.0.2.7", true),
            ("192.0.2.6", false),
            ("2001:db8:0:1::9", true),
            ("2001:db8:0:1::/64", true),
            ("2001:db8:0:2::/64", true),
            ("2001:db8:0:2::6", false),
            ("2001:db8:0:3::/64", false),
        ] {
            assert_eq!(prefixes.meet(&prefix.parse().unwrap()), expected, "{prefix}");
        }
    }

    #[test]
    fn only_changes_of_addresses_are_looked_up_and_each_has_few_places() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let port = |text: &str| text.parse::<ratelimit_base::text::service::ServiceName>().unwrap().0;
        let ports = [(port("tcp/80"), 1), (port("tcp/443"), 2)];
        let places = |others: &[Target]| places(others.iter().copied(), &ports).map(|places| places.len());
        assert_eq!(places(&[target("192.0.2.1")]), Some(2));
        assert_eq!(places(&[target("192.0.2.1").of(port("tcp/80"))]), Some(1));
        assert_eq!(places(&[target("192.0.2.1").of(port("udp/80"))]), Some(0));
        // An address, and the network around both.
        assert_eq!(places(&[target("2001:db8::1"), target("2001:db8::2")]), Some(6));
        for wide in ["192.0.2.0/24", "2001:db8::/64", "default"] {
            assert_eq!(places(&[target("192.0.2.1"), target(wide)]), None, "{wide}");
        }
    }

    #[test]
    fn only_services_with_packets_to_the_port_are_met() {
        let service = |text: &str| text.parse::<ratelimit_base::text::service::ServiceName>().unwrap().0;
        let met = |text: &str| may_share(service(text), service("tcp/8443"));
        assert!(
            ["tcp", "tcp-syn", "tcp/8443", "tcp/8000-9000"].into_iter().all(met)
                && may_share(Service::Any, service("tcp/1"))
        );
        assert!(!["udp", "udp/8443", "tcp/8444", "tcp/1-100", "icmp"].into_iter().any(met));
    }
}
