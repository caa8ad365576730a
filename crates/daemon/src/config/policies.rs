//! Policies: named ones, and those in the tables that use them.

use std::collections::HashMap;

use ratelimit_base::tables::{
    options,
    table::{Table, Value},
};
use ratelimit_common::limits::{
    limit_error::LimitError,
    policy::{Name, Policy},
};
use ratelimit_dataplane::{
    lists::action::Action,
    rules::{
        spec::RuleSpec,
        target::{Sources, Target},
    },
};

use crate::limit::Rates;

/// Policies that every file can use.
const VERDICTS: [(&str, Policy); 2] = [("allow", Policy::ALLOWED), ("deny", Policy::DENIED)];

/// The named policies of a file.
#[derive(Debug)]
pub(super) struct Policies {
    /// None for a policy with a problem, which was reported.
    named: HashMap<String, Option<Rates>>,
    /// Bits of an IPv6 address that identify a source.
    pub(super) ipv6_prefix: u8,
    /// Whether any interface has a capacity.
    has_capacity: bool,
    /// The keys of a limit.
    keys: Vec<String>,
}

impl Policies {
    /// Reads the named policies.
    pub(super) fn read(top: &Table<'_>, ipv6_prefix: u8, has_capacity: bool) -> Self {
        let mut policies = Self { named: HashMap::new(), ipv6_prefix, has_capacity, keys: options::keys::<Rates>() };
        for (key, value) in top.get("policy").and_then(Value::table).iter().flat_map(Table::each) {
            let Some(table) = value.table() else { continue };
            if VERDICTS.iter().any(|(name, _)| name == key.get_ref()) {
                table.wrong("this name is reserved: choose another name");
                continue;
            }
            match Name::new(key.get_ref()) {
                Ok(Name::EMPTY) => table.wrong("a policy needs a name"),
                Ok(_) => {}
                Err(error) => table.wrong(format!("the name of a policy: {error}")),
            }
            let rates = options::read::<Rates>(&table, &[]);
            // A problem is reported here, and not at every use.
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

    /// Returns the rule for this target from a table with a policy's name or options. `others` are the other keys of
    /// the table.
    pub(super) fn spec(&self, table: &Table<'_>, others: &[&str], target: Target) -> Option<RuleSpec> {
        let mut given_name = Name::EMPTY;
        let rates = match table.get("policy") {
            Some(name) => {
                let of_limit: Vec<&str> = self.keys.iter().map(String::as_str).collect();
                let mut is_good = table.expect_keys(&[others, &["policy"]].concat(), &of_limit);
                for (key, _) in table.each().filter(|(key, _)| of_limit.contains(&key.get_ref().as_ref())) {
                    table.wrong_key(key, "there is `policy` too: give either `policy` or the keys of a limit");
                    is_good = false;
                }
                let text = name.text().filter(|_| is_good)?;
                if let Some((_, policy)) = VERDICTS.iter().find(|(verdict, _)| *verdict == text) {
                    if target.sources == Sources::Default {
                        name.wrong("a default must be a limit: add rules for 0.0.0.0/0 and ::/0 instead");
                        return None;
                    }
                    return Some(RuleSpec::from(*policy));
                }
                let Some(rates) = self.named.get(text) else {
                    name.wrong(format!("no such policy: {}", self.names()));
                    return None;
                };
                given_name = Name::new(text).unwrap_or_default();
                rates.clone()?
            }
            None => options::read::<Rates>(table, &[others, &["policy"]].concat())?,
        };
        let spec = rates.some_terms(target.sources).map_err(|error| match error.downcast_ref() {
            Some(LimitError::Empty) => format!("{error}, or `policy`"),
            _ => error.to_string(),
        });
        let checked = spec.and_then(|spec| match self.check(target, &spec) {
            Ok(()) => Ok(RuleSpec { policy: Policy { name: given_name, ..spec.policy }, ..spec }),
            Err(error) => Err(error),
        });
        checked.map_err(|error| table.wrong(options::in_file(&error))).ok()
    }

    /// Returns what a list does: it denies, or has the limit of a named policy.
    pub(super) fn of_list(&self, name: Value<'_>) -> Option<Action> {
        match (name.text()?, self.named.get(name.text()?)) {
            ("deny", _) => Some(Action::Deny),
            (_, Some(rates)) => {
                let spec = rates.as_ref()?.some_terms(Sources::Default).map_err(|error| error.to_string());
                let checked = spec.and_then(|spec| self.check(Target::DEFAULT, &spec).map(|()| spec));
                let given = Name::new(name.text()?).unwrap_or_default();
                let named = |spec: RuleSpec| RuleSpec { policy: Policy { name: given, ..spec.policy }, ..spec };
                checked
                    .map(named)
                    .map(|spec| Action::Limit(Box::new(spec)))
                    .map_err(|error| name.wrong(options::in_file(&error)))
                    .ok()
            }
            (_, None) => {
                name.wrong("expected \"deny\" or the name of a [policy]");
                None
            }
        }
    }

    fn check(&self, target: Target, spec: &RuleSpec) -> Result<(), String> {
        spec.check(target, self.ipv6_prefix).map_err(|error| error.to_string())?;
        if spec.policy.elastic != 0 && !self.has_capacity {
            return Err(
                "throttle elastic needs the capacity of an interface: add capacity to [interface.NAME]".to_owned()
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
