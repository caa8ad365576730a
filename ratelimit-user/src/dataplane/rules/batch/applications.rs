//! Rules that applications have asked for. They give way to every rule of an operator: where both are about the same
//! packets, and where there is no room for both.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

use ratelimit_common::{
    identity::{
        class::Class,
        service::{Service, TCP, Transport},
        source::Source,
    },
    maps::control::FEATURE_SERVICES,
    rules::rule::{APPLICATION, Rule},
};

use crate::{
    dataplane::{
        Error,
        error::ServicesError,
        rules::{
            batch::{Change, change::end},
            list::{self, Listed},
            services::Services,
            spec::RuleSpec,
            target::{Sources, Target},
        },
        sys::host,
        tables::{open::Tables, rule_maps},
    },
    text::prefix::Prefix,
};

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

/// Returns the targets of all rules for applications, also of those that have ended.
pub(crate) fn all(tables: &Tables) -> Result<Vec<Target>, Error> {
    those(tables, |_| true)
}

/// Returns the targets of rules for applications that have ended.
pub(crate) fn ended(tables: &Tables) -> Result<Vec<Target>, Error> {
    let now = host::now();
    those(tables, |rule| rule.expires <= now)
}

/// Returns the targets of rules for applications that are in force.
pub(crate) fn standing(tables: &Tables) -> Result<Vec<Target>, Error> {
    let now = host::now();
    those(tables, |rule| rule.expires > now)
}

/// Returns a change that sets the rules for applications in force again, with the same ends.
pub(super) fn again(tables: &Tables) -> Result<Change, Error> {
    let now = host::now();
    let mut change = Change { keeps_bans: true, ..Change::default() };
    for Listed { target, spec, expires_in, .. } in
        list::of_entries(tables, entries(tables, |rule| rule.expires > now)?)?
    {
        change.add(target, change.specs.len(), end(expires_in), APPLICATION, None);
        change.specs.push(RuleSpec::clone(&spec));
    }
    Ok(change)
}

fn entries(tables: &Tables, wanted: impl Fn(&Rule) -> bool) -> Result<Vec<(Source, Rule)>, Error> {
    // Each of these rules is for a service of one TCP port. Without one, the rules need not be read.
    let is_port = |service: Service| matches!(service, Service::Ports(Transport::Tcp, first, last) if first == last);
    if tables.control()?.features & FEATURE_SERVICES == 0
        || !Services::read(tables)?.iter().any(|(service, _)| is_port(service))
    {
        return Ok(Vec::new());
    }
    let rules = rule_maps::sources(tables)?.into_iter().chain(rule_maps::prefixes(tables)?);
    Ok(rules.filter(|(_, rule)| rule.origin == APPLICATION && wanted(rule)).collect())
}

fn those(tables: &Tables, wanted: impl Fn(&Rule) -> bool) -> Result<Vec<Target>, Error> {
    let these = entries(tables, wanted)?;
    if these.is_empty() {
        return Ok(Vec::new());
    }
    let services = Services::read(tables)?;
    let target = |(source, _): (Source, Rule)| {
        let service = services.of_class(source.class as Class)?;
        Some(Target::prefix(Prefix::of(&source, source.prefix)).of(service))
    };
    Ok(these.into_iter().filter_map(target).collect())
}

/// Returns the targets of rules for applications that a rule for one of these prefixes would meet.
pub(crate) fn met_by(tables: &Tables, others: impl Iterator<Item = Prefix>) -> Result<Vec<Target>, Error> {
    let mut all = all(tables)?;
    if all.is_empty() {
        return Ok(all);
    }
    let prefixes = Prefixes(others.collect());
    all.retain(|target| matches!(target.sources, Sources::Prefix(prefix) if prefixes.meet(&prefix)));
    Ok(all)
}

/// Returns whether a change is on behalf of applications.
pub(super) fn is_for(change: &Change) -> bool {
    change.rules.first().is_some_and(|rule| rule.origin == APPLICATION)
}

/// Returns the change that also deletes the rules for applications that its own rules meet.
pub(super) fn yielding<'c>(tables: &Tables, change: &'c Change) -> Result<Cow<'c, Change>, Error> {
    if change.rules.is_empty() || is_for(change) {
        return Ok(Cow::Borrowed(change));
    }
    let mut all = all(tables)?;
    if all.is_empty() {
        return Ok(Cow::Borrowed(change));
    }
    let mut written: HashMap<Service, (bool, Prefixes)> = HashMap::new();
    for Target { sources, service } in change.rules.iter().map(|rule| rule.target) {
        let (has_default, prefixes) = written.entry(service).or_default();
        match sources {
            Sources::Default => *has_default = true,
            Sources::Prefix(prefix) => drop(prefixes.0.insert(prefix)),
        }
    }
    let is_met = |target: &Target| {
        let Sources::Prefix(prefix) = target.sources else { return false };
        let mut same = written.iter().filter(|(service, _)| may_share(**service, target.service));
        same.any(|(_, (has_default, prefixes))| *has_default || prefixes.meet(&prefix))
    };
    all.retain(is_met);
    let own: BTreeSet<Target> = change.targets().collect();
    all.retain(|target| !own.contains(target));
    if all.is_empty() {
        return Ok(Cow::Borrowed(change));
    }
    let mut change = change.clone();
    change.deleted.extend(all);
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

/// Returns whether an error says that rules have no room, which the rules for applications may take.
pub(super) fn may_take_the_room(error: &Error) -> bool {
    matches!(
        error,
        Error::TooManyRules { .. }
            | Error::TooManyPolicies(_)
            | Error::Services(ServicesError::TooMany(_) | ServicesError::Overlap { .. })
    )
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
    fn only_services_with_packets_to_the_port_are_met() {
        let service = |text: &str| text.parse::<crate::text::service::ServiceName>().unwrap().0;
        let met = |text: &str| may_share(service(text), service("tcp/8443"));
        assert!(
            ["tcp", "tcp-syn", "tcp/8443", "tcp/8000-9000"].into_iter().all(met)
                && may_share(Service::Any, service("tcp/1"))
        );
        assert!(!["udp", "udp/8443", "tcp/8444", "tcp/1-100", "icmp"].into_iter().any(met));
    }
}
