//! The rules in force: those of the operator's file, and those of callers.

use std::{collections::BTreeMap, sync::Arc};

use ratelimit_limiter::{MEMORY, Rule};

use super::teams::Teams;
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
    /// Who writes rules, as the operator says.
    teams: Teams,
}

impl Operators {
    pub(in crate::serve) fn of(requests: Requests) -> Self {
        let Requests { rules, keys, attributes, tokens, users, .. } = requests;
        Self { rules, keys, attributes, teams: Teams::of(&tokens, &users) }
    }

    /// Returns whether there are any rules.
    pub(in crate::serve) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }
}

/// What a team has of its budget.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    rules: usize,
    /// Rules without a number of clients, which share the memory of the team.
    sharing: usize,
    /// Bytes of the fewest clients of these rules.
    least: usize,
    /// Bytes of the rules with a number of clients.
    own: usize,
}

impl Used {
    fn add(&mut self, rule: &Rule) {
        self.rules += 1;
        match rule.own_memory() {
            Some(own) => self.own = self.own.saturating_add(own),
            None => {
                self.sharing += 1;
                self.least = self.least.saturating_add(rule.least_memory());
            }
        }
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
    /// Returns the rules of both, as a server has them that starts. No rule of a caller keeps it from that: those with a
    /// problem are left out.
    pub(in crate::serve) fn at_start(operators: Arc<Operators>, contents: Contents) -> Result<Self, String> {
        Self::without(operators, contents, |_, _| true)
    }

    /// Returns the rules after these with other ones of both. What these leave out, and has not changed, they leave out too.
    pub(super) fn next(&self, operators: Arc<Operators>, contents: Contents) -> Result<Self, String> {
        let is_known = |name: &str, stored: &Stored| self.left_out.get(name).is_some_and(|(known, _)| known == stored);
        Self::without(operators, contents, is_known)
    }

    /// Fails with all problems in one line. Rules of a fleet can fit another server and not this one, which leaves them out. A
    /// stored rule with a reserved name is left out too.
    fn without(
        operators: Arc<Operators>,
        contents: Contents,
        may_leave_out: impl Fn(&str, &Stored) -> bool,
    ) -> Result<Self, String> {
        let mut all = Self { operators, version: contents.version, ..Self::default() };
        let is_of_fleet = contents.fleet.is_some();
        let mut rules: Vec<_> = contents.rules.into_iter().collect();
        // Those of an engine, or of a file that somebody has written, can be any number. The oldest ones are in force.
        if rules.len() > MOST_RULES {
            rules.sort_by_key(|(_, stored)| stored.version);
        }
        for (name, stored) in rules {
            if all.stored.len() == MOST_RULES {
                let problem = format!("rule {name}: at most {MOST_RULES} rules of callers are possible: delete one");
                all.left_out.insert(name, (stored, problem));
                continue;
            }
            match all.read_stored(&name, &stored.keys) {
                Ok(rule) => drop(all.stored.insert(name, (stored, rule))),
                Err(problem) if is_of_fleet || is_reserved(&name) || may_leave_out(&name, &stored) => {
                    drop(all.left_out.insert(name, (stored, problem)));
                }
                Err(problem) => return Err(problem),
            }
        }
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
                all.check(self, name)?;
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

    /// Checks that a team has room for a rule that it has just written. What a team has already stays, also if the operator
    /// has made the room smaller since.
    fn check(&self, before: &Self, name: &str) -> Result<(), String> {
        let team = self.operators.teams.of_rule(name);
        let (all, mut was) = (self.used(), before.used());
        let (used, was) = (all.get(&team).copied().unwrap_or_default(), was.remove(&team).unwrap_or_default());
        let memory = self.memory_of_team();
        let most = (MOST_RULES / self.teams().shares()).max(1);
        if used.rules > was.rules && used.rules > most {
            return Err(format!("at most {most} rules of this scope are possible: delete one first"));
        }
        let is_beyond = |count: fn(&Self) -> usize| count(self) > MOST_RULES.max(count(before));
        if is_beyond(|all| all.stored.len()) || is_beyond(|all| all.stored.len() + all.left_out.len()) {
            return Err(format!(
                "at most {MOST_RULES} rules of all scopes together are possible: one of this scope or of another one must \
                 be deleted first"
            ));
        }
        if used.own > was.own && used.own > memory {
            let most = memory >> 20;
            return Err(format!(
                "clients: all rules of this scope with this key may take {most} MiB: give fewer clients"
            ));
        }
        if used.least > was.least && used.least > memory {
            let most = memory >> 20;
            return Err(format!(
                "limits: all rules of this scope may take {most} MiB, and each has 64 clients at least: delete one \
                 first, or choose another algorithm than sliding-log"
            ));
        }
        Ok(())
    }

    fn memory_of_team(&self) -> usize {
        MEMORY / self.teams().shares()
    }

    fn used(&self) -> BTreeMap<Option<usize>, Used> {
        let mut used: BTreeMap<_, Used> = BTreeMap::new();
        for (name, (_, rule)) in &self.stored {
            used.entry(self.operators.teams.of_rule(name)).or_default().add(rule);
        }
        // They have no memory, but the place of a rule.
        for name in self.left_out.keys() {
            used.entry(self.operators.teams.of_rule(name)).or_default().rules += 1;
        }
        used
    }

    /// Returns the rules of callers in force, as they are kept.
    #[cfg(test)]
    pub(super) fn stored_rules(&self) -> BTreeMap<String, Stored> {
        self.stored.iter().map(|(name, (stored, _))| (name.clone(), stored.clone())).collect()
    }

    /// Returns how many rules there are.
    pub(in crate::serve) fn count(&self) -> Count {
        let (of_file, of_callers) = (&self.operators.rules, self.stored.values().map(|(_, rule)| rule));
        let in_shadow = of_file.iter().chain(of_callers).filter(|rule| rule.is_shadow()).count();
        Count { of_file: of_file.len(), of_callers: self.stored.len(), in_shadow }
    }

    /// Returns all rules, those of the operator first. Those of the operator together have as much memory as one, and so have
    /// those of callers, of which each team has its part. So nobody takes memory from rules of others.
    pub(in crate::serve) fn rules(&self) -> Vec<Rule> {
        let own = self.operators.rules.iter().map(|rule| rule.clone().with_memory(MEMORY / self.operators.rules.len()));
        let (used, memory) = (self.used(), self.memory_of_team());
        let stored = self.stored.iter().map(|(name, (_, rule))| {
            let used = used.get(&self.operators.teams.of_rule(name)).copied().unwrap_or_default();
            let rest = memory.saturating_sub(used.least) / used.sharing.max(1);
            rule.clone().with_memory(rule.least_memory().saturating_add(rest))
        });
        own.chain(stored).collect()
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

    /// Returns the version of a rule that is kept, but left out.
    pub(in crate::serve) fn version_left_out(&self, name: &str) -> Option<u64> {
        self.left_out.get(name).map(|(stored, _)| stored.version)
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

    /// Returns who writes rules, as the operator says.
    pub(super) fn teams(&self) -> &Teams {
        &self.operators.teams
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
            InForce::at_start(Arc::new(operators), contents).unwrap().count().in_words(" in force")
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
