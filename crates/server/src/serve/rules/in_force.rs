//! The rules in force: those of the operator's file, and those of callers.

use std::{collections::BTreeMap, sync::Arc};

use ratelimit_limiter::{MEMORY, Rule};

use crate::config::{
    MOST_RULES, Requests, is_reserved,
    stored::{Contents, Stored},
    written::{self, Keys},
};

/// The most bytes of a rule of a caller, as JSON.
pub(in crate::serve) const RULE: usize = 16 << 10;

/// The operator's rules.
#[derive(Debug, Default)]
pub(in crate::serve) struct Operators {
    rules: Vec<Rule>,
    keys: BTreeMap<String, Keys>,
    attributes: Vec<String>,
}

impl Operators {
    pub(in crate::serve) fn of(requests: Requests) -> Self {
        let Requests { rules, keys, attributes, .. } = requests;
        Self { rules, keys, attributes }
    }
}

/// How many rules are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::serve) struct Count {
    of_file: usize,
    of_callers: usize,
    in_shadow: usize,
}

impl Count {
    /// Returns it in words, with a text behind the rules. Only rules of callers make it tell both kinds.
    pub(in crate::serve) fn in_words(self, then: &str) -> String {
        let Self { of_file, of_callers, in_shadow } = self;
        let rules = if of_file == 1 { "rule" } else { "rules" };
        let callers = if of_callers == 0 { String::new() } else { format!(" of the file and {of_callers} of callers") };
        let shadow = if in_shadow == 0 { String::new() } else { format!(", {in_shadow} of them in shadow") };
        format!("{of_file} {rules}{callers}{then}{shadow}")
    }
}

/// The rules in force.
#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct InForce {
    operators: Arc<Operators>,
    stored: BTreeMap<String, (Stored, Rule)>,
    /// Stored rules that do not fit this server, each with the problem.
    left_out: BTreeMap<String, (Stored, String)>,
    /// The version of the last change.
    version: u64,
}

impl InForce {
    /// Returns the rules of both. Fails with all problems in one line. Rules of a fleet can fit another server and not this
    /// one, which leaves them out. A stored rule with a reserved name is left out too, so that the server starts.
    pub(in crate::serve) fn new(operators: Arc<Operators>, contents: Contents) -> Result<Self, String> {
        // Those of an engine can be any number.
        if operators.rules.len() + contents.rules.len() > MOST_RULES {
            return Err(too_many());
        }
        let mut all = Self { operators, version: contents.version, ..Self::default() };
        let is_of_fleet = contents.fleet.is_some();
        for (name, stored) in contents.rules {
            match all.read_stored(&name, &stored.keys) {
                Ok(rule) => drop(all.stored.insert(name, (stored, rule))),
                Err(problem) if is_of_fleet || is_reserved(&name) => drop(all.left_out.insert(name, (stored, problem))),
                Err(problem) => return Err(problem),
            }
        }
        all.check()?;
        Ok(all)
    }

    /// Returns the rules with one of a caller written or deleted. Fails if the rule is too large to keep.
    pub(super) fn with(&self, name: &str, version: u64, keys: Option<&Keys>) -> Result<Self, String> {
        let mut all = Self { version, ..self.clone() };
        all.left_out.remove(name);
        match keys {
            Some(keys) => {
                check_length(keys)?;
                let rule = all.read(name, keys)?;
                all.stored.insert(name.to_owned(), (Stored { version, keys: keys.clone() }, rule));
                all.check()?;
                let (before, after) = (self.shared_memory(), all.shared_memory());
                // Rules of an earlier version may take more already, and then take less with each change.
                if after > MEMORY && after > before {
                    let most = MEMORY >> 20;
                    return Err(format!(
                        "limits: all rules of callers without the key clients may take {most} MiB: use an algorithm that \
                         keeps less, or delete rules"
                    ));
                }
            }
            None => drop(all.stored.remove(name)),
        }
        Ok(all)
    }

    fn read_stored(&self, name: &str, keys: &Keys) -> Result<Rule, String> {
        if self.is_of_operator(name) {
            return Err(format!("{name} is a rule of callers too: choose another name, or delete that one first"));
        }
        self.read(name, &written::with_effect(keys)).map_err(|problem| format!("rule {name}: {problem}"))
    }

    fn read(&self, name: &str, keys: &Keys) -> Result<Rule, String> {
        written::read(name, keys, &self.operators.attributes).map_err(|problems| problems.join("; "))
    }

    /// Checks what only all rules together can break.
    fn check(&self) -> Result<(), String> {
        if self.len() > MOST_RULES {
            return Err(too_many());
        }
        // Callers share the memory of the server. An operator may give its own rules more.
        let own = self.stored.values().filter_map(|(_, rule)| rule.own_memory());
        if own.fold(0, usize::saturating_add) > MEMORY {
            let most = MEMORY >> 20;
            return Err(format!("clients: all rules of callers with this key may take {most} MiB: give fewer clients"));
        }
        Ok(())
    }

    /// Returns the bytes that clients of rules of callers take at most, without rules with the key `clients`.
    fn shared_memory(&self) -> usize {
        let share = MEMORY / self.stored.len().max(1);
        let shared = self.stored.values().filter(|(_, rule)| rule.own_memory().is_none());
        shared.fold(0, |sum, (_, rule)| sum.saturating_add(rule.clone().with_memory(share).most_memory()))
    }

    fn len(&self) -> usize {
        self.operators.rules.len() + self.stored.len()
    }

    /// Returns how many rules there are.
    pub(in crate::serve) fn count(&self) -> Count {
        let (of_file, of_callers) = (&self.operators.rules, self.stored.values().map(|(_, rule)| rule));
        let in_shadow = of_file.iter().chain(of_callers).filter(|rule| rule.is_shadow()).count();
        Count { of_file: of_file.len(), of_callers: self.stored.len(), in_shadow }
    }

    /// Returns all rules, those of the operator first. Those of the operator together have as much memory as one, and so have
    /// those of callers. So callers take no memory from rules of the operator.
    pub(in crate::serve) fn rules(&self) -> Vec<Rule> {
        let own = self.operators.rules.iter().map(|rule| (rule, self.operators.rules.len()));
        let stored = self.stored.values().map(|(_, rule)| (rule, self.stored.len()));
        own.chain(stored).map(|(rule, count)| rule.clone().with_memory(MEMORY / count)).collect()
    }

    /// Returns the names, versions and keys of all rules. A rule of the operator has no version.
    pub(in crate::serve) fn each(&self) -> impl Iterator<Item = (&str, Option<u64>, &Keys)> {
        let of_operator = |rule: &'_ Rule| Some((self.operators.keys.get_key_value(rule.name())?, None));
        let own = self.operators.rules.iter().filter_map(of_operator);
        let stored = self.stored.iter().map(|(name, (stored, _))| ((name, &stored.keys), Some(stored.version)));
        own.chain(stored).map(|((name, keys), version)| (name.as_str(), version, keys))
    }

    /// Returns the version and the keys of a rule.
    pub(in crate::serve) fn get(&self, name: &str) -> Option<(Option<u64>, &Keys)> {
        let stored = self.stored.get(name).map(|(stored, _)| (Some(stored.version), &stored.keys));
        stored.or_else(|| Some((None, self.operators.keys.get(name)?)))
    }

    /// Returns a rule.
    pub(in crate::serve) fn rule(&self, name: &str) -> Option<&Rule> {
        let stored = self.stored.get(name).map(|(_, rule)| rule);
        stored.or_else(|| self.operators.rules.iter().find(|rule| rule.name() == name))
    }

    /// Returns the version and the keys of a rule that is in force or left out.
    pub(super) fn kept(&self, name: &str) -> Option<(Option<u64>, &Keys)> {
        let left_out = self.left_out.get(name).map(|(stored, _)| (Some(stored.version), &stored.keys));
        self.get(name).or(left_out)
    }

    /// Returns the names of the rules that are left out, each with the problem.
    pub(super) fn left_out(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.left_out.iter().map(|(name, (_, problem))| (&**name, &**problem))
    }

    /// Returns whether the operator's file has this rule.
    pub(in crate::serve) fn is_of_operator(&self, name: &str) -> bool {
        self.operators.keys.contains_key(name)
    }

    /// Returns the names of the operator's rules, each with a text that is equal for equal rules.
    pub(in crate::serve) fn limits_of_operator(&self) -> Vec<(&str, String)> {
        // Each server has as much memory as it needs.
        let limits = |keys: &Keys| {
            let each = keys.iter().filter(|(key, _)| *key != "clients");
            each.map(|(key, value)| format!("{key} = {}\n", plain(value))).collect()
        };
        self.operators.keys.iter().map(|(name, keys)| (&**name, limits(keys))).collect()
    }

    /// Returns the version of the last change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the operator's rules.
    pub(super) fn operators(&self) -> Arc<Operators> {
        Arc::clone(&self.operators)
    }
}

/// Returns a value in words. A list of one value is that value.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        toml::Value::Table(values) => {
            let each = values.iter().map(|(key, value)| format!("{key} = {}", plain(value)));
            format!("{{ {} }}", each.collect::<Vec<_>>().join("; "))
        }
        value => value.to_string(),
    }
}

fn check_length(keys: &Keys) -> Result<(), String> {
    let length = serde_json::to_vec(keys).map_err(|error| error.to_string())?.len();
    if length > RULE {
        return Err(format!("the rule has {length} bytes, at most {RULE} are possible: give it fewer values"));
    }
    Ok(())
}

fn too_many() -> String {
    format!("at most {MOST_RULES} rules for requests are possible: delete one first")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config as requests;

    #[test]
    fn a_rule_of_a_caller_has_at_most_16_kib() {
        let rule = |values: usize| {
            let values: Vec<_> = (0..values).map(|number| toml::Value::from(format!("v{number:098}"))).collect();
            let condition = toml::Table::from_iter([("operation".to_owned(), values.into())]);
            Keys::from_iter([("limits".to_owned(), "1/s".into()), ("match".to_owned(), condition.into())])
        };
        let none = InForce::default();
        let error = none.with("a", 1, Some(&rule(200))).unwrap_err();
        assert!(error.starts_with("the rule has 20") && error.contains("at most 16384 are possible"), "{error}");
        // This one is as long as a rule can be, as far as its length is concerned.
        assert!(!none.with("a", 1, Some(&rule(150))).err().unwrap_or_default().contains("bytes"));
    }

    #[test]
    fn a_count_tells_rules_in_shadow_and_those_of_callers() {
        let count = |of_file: &[bool], of_callers: &[bool]| {
            let rule = |(number, is_shadow): (usize, &bool)| {
                format!("[[check]]\nname = \"r{number}\"\nlimits = \"1/s\"\nshadow = {is_shadow}\n")
            };
            let text: String = of_file.iter().enumerate().map(rule).collect();
            let stored = |(number, is_shadow): (usize, &bool)| {
                let keys =
                    Keys::from_iter([("limits".to_owned(), "1/s".into()), ("shadow".to_owned(), (*is_shadow).into())]);
                (format!("c{number}"), Stored { version: 1, keys })
            };
            let rules = of_callers.iter().enumerate().map(stored).collect();
            let operators = Operators::of(requests::parse(&text).unwrap());
            let contents = Contents { version: 1, fleet: None, rules };
            InForce::new(Arc::new(operators), contents).unwrap().count().in_words(" in force")
        };
        assert_eq!(count(&[false], &[]), "1 rule in force");
        assert_eq!(count(&[false, false], &[]), "2 rules in force");
        assert_eq!(count(&[false, true, true], &[]), "3 rules in force, 2 of them in shadow");
        assert_eq!(count(&[true], &[]), "1 rule in force, 1 of them in shadow");
        assert_eq!(count(&[false], &[false]), "1 rule of the file and 1 of callers in force");
        assert_eq!(count(&[], &[false]), "0 rules of the file and 1 of callers in force");
        let both = "2 rules of the file and 2 of callers in force, 2 of them in shadow";
        assert_eq!(count(&[true, false], &[false, true]), both);
    }
}
