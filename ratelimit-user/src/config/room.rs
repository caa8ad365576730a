//! Whether what a file says has room in any instance. What others have set there takes room too, so that this is the least.

use std::collections::HashSet;

use ratelimit_common::{
    identity::{class::CLASSES, service::Service},
    limits::policy::Policy,
    maps::names::{POLICIES_MAX, PREFIX_RULES_MAX, SOURCE_RULES_MAX},
};

use crate::dataplane::rules::{
    rule_key,
    spec::Terms,
    target::{Sources, Target},
};

/// What a file needs so far.
#[derive(Debug)]
pub(super) struct Room {
    services: HashSet<Service>,
    policies: HashSet<Policy>,
    /// Rules for single sources.
    singles: u32,
    /// Rules for prefixes.
    prefixes: u32,
}

impl Room {
    pub(super) fn new() -> Self {
        let always = [Policy::UNLIMITED, Policy::ALLOWED, Policy::DENIED, Policy::BANNED];
        Self { services: HashSet::new(), policies: HashSet::from(always), singles: 0, prefixes: 0 }
    }

    /// Counts a service. Says what is wrong with the first one that has no room.
    pub(super) fn add_service(&mut self, service: Service) -> Option<String> {
        let is_new = service != Service::Any && self.services.insert(service);
        let most = CLASSES - 1;
        (is_new && self.services.len() == most + 1)
            .then(|| format!("one service more than the {most} that can be told apart: leave some away"))
    }

    /// Counts a rule. Says the same of it.
    pub(super) fn add(&mut self, target: Target, terms: &Terms, ipv6_prefix: u8) -> Option<String> {
        self.add_service(target.service).or_else(|| self.add_policies(terms)).or_else(|| match target.sources {
            Sources::Default => None,
            Sources::Prefix(prefix) if rule_key::is_single(&prefix, ipv6_prefix) => {
                one_more(&mut self.singles, SOURCE_RULES_MAX, "single addresses")
            }
            Sources::Prefix(_) => one_more(&mut self.prefixes, PREFIX_RULES_MAX, "prefixes"),
        })
    }

    fn add_policies(&mut self, terms: &Terms) -> Option<String> {
        let (before, most) = (self.policies.len(), POLICIES_MAX as usize);
        self.policies.insert(terms.policy);
        self.policies.extend(terms.parents.iter().map(|parent| parent.policy));
        (before <= most && self.policies.len() > most)
            .then(|| "more different limits than there is room for: have rules share some".to_owned())
    }
}

fn one_more(count: &mut u32, most: u32, of: &str) -> Option<String> {
    *count += 1;
    (*count == most + 1).then(|| format!("one rule more than the {most} that {of} can have: leave some away"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_rules_the_first_is_told_of() {
        for (prefix, most) in
            [("10.0.0.1", SOURCE_RULES_MAX), ("10.0.0.0/8", PREFIX_RULES_MAX), ("2001:db8::1", 262_144)]
        {
            let (mut room, target) = (Room::new(), Target::prefix(prefix.parse().unwrap()));
            let mut add = || room.add(target, &Terms::from(Policy::DENIED), 64);
            assert!((0..most).all(|_| add().is_none()), "{prefix}");
            let told = add().unwrap();
            assert!(told.starts_with(&format!("one rule more than the {most} that ")), "{told}");
            assert_eq!(add(), None);
        }
    }
}
