//! Checks whether the rules of a file fit into the maps of an empty instance. Rules of other origins need space too, so
//! a file that passes can still be refused later.

use std::collections::HashSet;

use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{
    identity::{class::CLASSES, service::Service},
    limits::policy::Policy,
    maps::names::{POLICIES_MAX, PREFIX_RULES_MAX, SOURCE_RULES_MAX},
};
use ratelimit_dataplane::rules::{
    rule_key,
    spec::RuleSpec,
    target::{Sources, Target},
};

/// The map entries that a file needs so far.
#[derive(Debug)]
pub(super) struct SpaceNeeded {
    services: HashSet<Service>,
    policies: HashSet<Policy>,
    /// Rules for single sources.
    singles: u32,
    /// Rules for prefixes.
    prefixes: u32,
}

impl SpaceNeeded {
    pub(super) fn new() -> Self {
        let always = [Policy::UNLIMITED, Policy::ALLOWED, Policy::DENIED, Policy::BANNED, Policy::FORCED];
        Self { services: HashSet::new(), policies: HashSet::from(always), singles: 0, prefixes: 0 }
    }

    /// Counts a service. Returns the problem for the first one that does not fit, or that has a port of another one.
    pub(super) fn add_service(&mut self, service: Service) -> Option<String> {
        let is_new = service != Service::Any && self.services.insert(service);
        if let Some(other) = self.services.iter().find(|other| is_new && other.overlaps(service)) {
            let [service, other] = [service, *other].map(ServiceName);
            return Some(format!("{service} overlaps {other} in this file: a port belongs to one service only"));
        }
        let most = CLASSES - 1;
        (is_new && self.services.len() == most + 1)
            .then(|| format!("more than {most} services, the largest number: remove some"))
    }

    /// Counts a rule. Returns the problem for the first one that does not fit.
    pub(super) fn add(&mut self, target: Target, spec: &RuleSpec, ipv6_prefix: u8) -> Option<String> {
        self.add_service(target.service).or_else(|| self.add_policies(spec)).or_else(|| match target.sources {
            Sources::Default => None,
            Sources::Prefix(prefix) if rule_key::is_single(&prefix, ipv6_prefix) => {
                one_more(&mut self.singles, SOURCE_RULES_MAX, "single addresses")
            }
            Sources::Prefix(_) => one_more(&mut self.prefixes, PREFIX_RULES_MAX, "prefixes"),
        })
    }

    fn add_policies(&mut self, spec: &RuleSpec) -> Option<String> {
        let (before, most) = (self.policies.len(), POLICIES_MAX as usize);
        self.policies.insert(spec.policy);
        self.policies.extend(spec.parents.iter().map(|parent| parent.policy));
        (before <= most && self.policies.len() > most)
            .then(|| "more different limits than the largest number: use the same limit for several rules".to_owned())
    }
}

fn one_more(count: &mut u32, most: u32, of: &str) -> Option<String> {
    *count += 1;
    (*count == most + 1).then(|| format!("more than {most} rules for {of}, the largest number: remove some"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_too_many_is_reported() {
        for (prefix, most) in
            [("10.0.0.1", SOURCE_RULES_MAX), ("10.0.0.0/8", PREFIX_RULES_MAX), ("2001:db8::1", 262_144)]
        {
            let (mut space, target) = (SpaceNeeded::new(), Target::prefix(prefix.parse().unwrap()));
            let mut add = || space.add(target, &RuleSpec::from(Policy::DENIED), 64);
            assert!((0..most).all(|_| add().is_none()), "{prefix}");
            let problem = add().unwrap();
            assert!(problem.starts_with(&format!("more than {most} rules for ")), "{problem}");
            assert_eq!(add(), None);
        }
    }
}
