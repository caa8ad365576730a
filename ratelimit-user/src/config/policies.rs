//! Policies: by name, or where they are used.

use std::collections::HashMap;

use ratelimit_common::limits::policy::Policy;

use super::{
    options,
    table::{Table, Value},
};
use crate::{
    dataplane::rules::{
        spec::Terms,
        target::{Sources, Target},
    },
    limit::Rates,
};

/// Names that every file has.
const VERDICTS: [(&str, Policy); 2] = [("allow", Policy::ALLOWED), ("deny", Policy::DENIED)];

/// The named policies of a file.
#[derive(Debug)]
pub(super) struct Policies {
    /// Nothing where one is wrong, which was said.
    named: HashMap<String, Option<Rates>>,
    /// Bits of an IPv6 address that make a source.
    pub(super) ipv6_prefix: u8,
    /// Whether any interface has a capacity.
    has_capacity: bool,
}

impl Policies {
    /// Reads all.
    pub(super) fn read(top: &Table<'_>, ipv6_prefix: u8, has_capacity: bool) -> Self {
        let mut policies = Self { named: HashMap::new(), ipv6_prefix, has_capacity };
        for (key, value) in top.get("policy").and_then(Value::table).iter().flat_map(Table::each) {
            let Some(table) = value.table() else { continue };
            if VERDICTS.iter().any(|(name, _)| name == key.get_ref()) {
                table.wrong("this name has a meaning of its own: choose another");
                continue;
            }
            let rates = options::read::<Rates>(&table, &[]);
            // What is wrong with it is said here, and not at every use.
            let is_good = rates.as_ref().is_some_and(|rates| match rates.some_terms(Sources::Default) {
                Ok(_) => true,
                Err(error) => {
                    table.wrong(options::in_file(&error.to_string()));
                    false
                }
            });
            policies.named.insert(key.get_ref().clone().into_owned(), rates.filter(|_| is_good));
        }
        policies
    }

    /// The terms of a table that has a policy's name, or its options, for this target. `others` are the keys that the table may have besides.
    pub(super) fn terms(&self, table: &Table<'_>, others: &[&str], target: Target) -> Option<Terms> {
        let rates = match table.get("policy") {
            Some(name) => {
                let is_good = table.expect_keys(&[others, &["policy"]].concat(), &[]);
                let text = name.text().filter(|_| is_good)?;
                if let Some((_, policy)) = VERDICTS.iter().find(|(verdict, _)| *verdict == text) {
                    if target.sources == Sources::Default {
                        name.wrong("a default is a limit: give 0.0.0.0/0 and ::/0 a rule");
                        return None;
                    }
                    return Some(Terms::from(*policy));
                }
                let Some(rates) = self.named.get(text) else {
                    name.wrong(format!("no such policy: {}", self.names()));
                    return None;
                };
                rates.clone()?
            }
            None => options::read::<Rates>(table, &[others, &["policy"]].concat())?,
        };
        let terms = rates.some_terms(target.sources).map_err(|error| error.to_string());
        let checked = terms.and_then(|terms| match self.check(target, &terms) {
            Ok(()) => Ok(terms),
            Err(error) => Err(error),
        });
        checked.map_err(|error| table.wrong(options::in_file(&error))).ok()
    }

    fn check(&self, target: Target, terms: &Terms) -> Result<(), String> {
        terms.check(target, self.ipv6_prefix).map_err(|error| error.to_string())?;
        if terms.policy.elastic != 0 && !self.has_capacity {
            return Err(
                "no interface has a capacity, which throttle elastic goes by: give one in [interface.NAME]".to_owned()
            );
        }
        Ok(())
    }

    fn names(&self) -> String {
        let mut names: Vec<&str> = self.named.keys().map(String::as_str).collect();
        names.sort_unstable();
        names.extend(VERDICTS.map(|(name, _)| name));
        format!("expected {}", names.join(", "))
    }
}
