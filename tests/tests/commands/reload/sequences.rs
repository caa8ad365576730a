//! Random sequences of commands and reloads, compared with a model.

use std::{collections::BTreeMap, path::Path, time::Duration};

use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{Config as Cases, TestCaseError, TestRunner},
};
use ratelimit_common::rules::rule::{COMMAND, CONFIG};
use ratelimit_daemon::{
    config::{self, Config, Planned, save},
    controller::change::apply,
};
use ratelimit_dataplane::{
    Instance,
    rules::{list, spec::RuleSpec, target::Target},
};
use ratelimit_tests::Sandbox;

use crate::PINS;

/// Targets of rules, as in a file. Host and prefix use different maps, and services need another program.
const TARGETS: [&str; 6] = [
    "source = \"default\"",
    "source = \"default\"\nservice = \"udp/53\"",
    "source = \"10.0.0.1\"",
    "source = \"10.0.0.1\"\nservice = \"udp/53\"",
    "source = \"10.0.0.0/24\"",
    "source = \"2001:db8::/64\"",
];

/// Rule specs. The last two are not valid for the default.
const TERMS: [&str; 5] = [
    "packets = \"5/s\"",
    "packets = \"9/s\"\nbytes = \"1MB/s\"",
    "packets = \"7/m\"\nalgorithm = \"fixed-window\"",
    "policy = \"allow\"",
    "policy = \"deny\"\nuntil = 2099-01-01T00:00:00Z",
];

/// A rule by its indices in those tables.
type Rule = (usize, usize);

#[derive(Debug, Clone)]
enum Step {
    /// Sets a rule by command.
    Set(Rule),
    /// Deletes a rule by command, whatever its origin.
    Delete(usize),
    /// Reloads a file with these rules.
    Reload(Vec<Rule>),
    /// Reloads a file with these rules and an interface that cannot be attached.
    Fail(Vec<Rule>),
    /// Saves the running state as the file and reloads it.
    Save,
    /// Restarts the daemon with these rules.
    Restart(Vec<Rule>),
}

fn rule() -> impl Strategy<Value = Rule> {
    (0..TARGETS.len(), 0..TERMS.len()).prop_map(|(target, spec)| (target, if target < 2 { spec % 3 } else { spec }))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => rule().prop_map(Step::Set),
        3 => select((0..TARGETS.len()).collect::<Vec<_>>()).prop_map(Step::Delete),
        3 => vec(rule(), 0..5).prop_map(Step::Reload),
        1 => vec(rule(), 0..5).prop_map(Step::Fail),
        1 => Just(Step::Save),
        1 => vec(rule(), 0..5).prop_map(Step::Restart),
    ]
}

/// A rule that is in force, by the index of its spec and its origin.
#[derive(Debug, Clone, Copy)]
struct Running {
    spec: usize,
    origin: u8,
    /// The rule without an end that it covers.
    below: Option<(usize, u8)>,
}

/// The spec and the origin of a covered rule.
type Covered = Option<(RuleSpec, u8)>;

/// A rule of the model, with its origin and the rule that it covers.
type Expected = (Planned, u8, Covered);

/// Expected state: the rules of the file, and those in force.
#[derive(Debug, Default)]
struct Model {
    file: BTreeMap<usize, usize>,
    running: BTreeMap<usize, Running>,
}

impl Running {
    fn of_file(spec: usize) -> Self {
        Self { spec, origin: CONFIG, below: None }
    }

    /// Returns the rule without an end: this one, or the one that it covers.
    fn lasting(self) -> Option<(usize, u8)> {
        if has_end(self.spec) { self.below } else { Some((self.spec, self.origin)) }
    }
}

impl Model {
    /// A rule with an end covers the one without.
    fn set(&mut self, (target, spec): Rule) {
        let lasting = self.running.get(&target).and_then(|running| running.lasting());
        let below = lasting.filter(|_| has_end(spec));
        self.running.insert(target, Running { spec, origin: COMMAND, below });
    }

    /// A covered rule returns.
    fn delete(&mut self, target: usize) {
        let below = self.running.remove(&target).and_then(|running| running.below);
        if let Some((spec, origin)) = below {
            self.running.insert(target, Running { spec, origin, below: None });
        }
    }

    /// The new file replaces the previous one. Rules set by command stay, and those that the file repeats become its own.
    /// A rule of the file waits below one with an end.
    fn reload(&mut self) {
        let file = &self.file;
        self.running.retain(|target, running| running.origin == COMMAND || file.contains_key(target));
        for (target, running) in &mut self.running {
            running.below = running.below.filter(|(_, origin)| *origin == COMMAND || file.contains_key(target));
        }
        for (target, spec) in file {
            let running = self.running.entry(*target).or_insert(Running::of_file(*spec));
            let is_free_below = running.below.is_none_or(|(below, origin)| origin == CONFIG || below == *spec);
            if running.origin == CONFIG || running.spec == *spec && !has_end(*spec) {
                *running = Running::of_file(*spec);
            } else if has_end(running.spec) && !has_end(*spec) && is_free_below {
                running.below = Some((*spec, CONFIG));
            }
        }
    }

    /// A file has one rule for each target: the one that stays.
    fn save(&mut self) {
        let saved = |running: &Running| running.lasting().map_or(running.spec, |(spec, _)| spec);
        self.file = self.running.iter().map(|(target, running)| (*target, saved(running))).collect();
    }

    /// Returns the rules as the instance lists them, with those that they cover.
    fn listed(&self) -> Vec<Expected> {
        let mut rules: Vec<_> = self
            .running
            .iter()
            .map(|(target, Running { spec, origin, below })| {
                let below = below.map(|(spec, origin)| ((*planned((*target, spec)).spec).clone(), origin));
                (planned((*target, *spec)), *origin, below)
            })
            .collect();
        rules.sort_by_key(|(rule, ..)| rule.target);
        rules
    }
}

/// Returns whether a rule with this spec expires.
fn has_end(spec: usize) -> bool {
    TERMS[spec].contains("until")
}

fn text(interfaces: &str, rules: &BTreeMap<usize, usize>) -> String {
    let rules = rules.iter().map(|(target, spec)| format!("[[rule]]\n{}\n{}\n", TARGETS[*target], TERMS[*spec]));
    format!("interfaces = [{interfaces}]\n{}", rules.collect::<String>())
}

fn parse(text: &str) -> Config {
    config::parse(text, |_| 0).unwrap()
}

fn planned((target, spec): Rule) -> Planned {
    parse(&text("", &BTreeMap::from([(target, spec)]))).rules.remove(0)
}

/// Returns a file with the first rule of each target.
fn file(rules: &[Rule]) -> BTreeMap<usize, usize> {
    rules.iter().rev().copied().collect()
}

/// The daemon without its process: its current file.
struct Daemon(Config);

impl Daemon {
    fn apply(&self, is_first: bool) -> Result<(), TestCaseError> {
        let protected = apply::ProtectedSessions::default();
        apply::apply(Path::new(PINS), &self.0, is_first, &protected, &Default::default, &mut None)
            .map(drop)
            .map_err(|error| TestCaseError::fail(error.to_string()))
    }
}

fn take(step: &Step, model: &mut Model, daemon: &mut Daemon) -> Result<(), TestCaseError> {
    let open = || Instance::open(Path::new(PINS)).unwrap();
    match step {
        Step::Set(rule) => {
            let Planned { target, spec, until, .. } = planned(*rule);
            let life = until.map(|until| until.elapsed().unwrap_err().duration());
            open().set_rule(target, &spec, life, COMMAND).unwrap();
            model.set(*rule);
        }
        Step::Delete(target) => {
            open().delete_rule(planned((*target, 0)).target).unwrap();
            model.delete(*target);
        }
        Step::Reload(rules) | Step::Restart(rules) => {
            model.file = file(rules);
            model.reload();
            daemon.0 = parse(&text("\"eth0\"", &model.file));
            daemon.apply(matches!(step, Step::Restart(_)))?;
        }
        Step::Fail(rules) => {
            let failing = Daemon(parse(&text("\"eth0\", \"lo\"", &file(rules))));
            let error = failing.apply(false).unwrap_err().to_string();
            prop_assert!(error.contains("lo: its driver does not support native XDP"), "{error}");
        }
        Step::Save => {
            daemon.0 = parse(&save::save(&open(), &[]).unwrap());
            model.save();
            model.reload();
            daemon.apply(false)?;
        }
    }
    Ok(())
}

/// A rule of the instance in the model's form.
type Found = (Target, RuleSpec, Option<Duration>, u8, Covered);

/// Returns every rule of the instance.
fn listed(instance: &Instance) -> Vec<Found> {
    let rules = list::list(&instance.tables).unwrap();
    rules
        .into_iter()
        .map(|rule| {
            let below = rule.covers.map(|covered| ((*covered.spec).clone(), covered.origin));
            (rule.target, (*rule.spec).clone(), rule.expires_in, rule.origin, below)
        })
        .collect()
}

/// Takes the steps, and compares the instance with the model after each one.
fn matches_the_model(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut model, mut daemon) = (Model::default(), Daemon(parse(&text("\"eth0\"", &BTreeMap::new()))));
    daemon.apply(true)?;
    let outcome = steps.iter().enumerate().try_for_each(|(number, step)| {
        take(step, &mut model, &mut daemon)?;
        let instance = Instance::open(Path::new(PINS)).unwrap();
        let (listed, expected) = (listed(&instance), model.listed());
        let is_same = |((target, spec, expires_in, origin, below), (rule, by, covered)): (&Found, &Expected)| {
            let ends = rule.until.map(|until| until.elapsed().unwrap_err().duration());
            let same_end = match (expires_in, ends) {
                (Some(left), Some(expected)) => left.abs_diff(expected) < Duration::from_secs(5),
                (left, expected) => *left == expected,
            };
            (target, spec, origin, below) == (&rule.target, &rule.spec, by, covered) && same_end
        };
        let same = listed.len() == expected.len() && listed.iter().zip(&expected).all(is_same);
        prop_assert!(same, "after step {number}: {listed:?} instead of {expected:?}");
        prop_assert_eq!(instance.attachments.list().unwrap().len(), 1);
        Ok(())
    });
    Instance::open(Path::new(PINS)).unwrap().remove().unwrap();
    outcome
}

#[test]
fn any_sequence_of_commands_and_reloads_matches_the_model() {
    let sandbox = Sandbox::new();
    let mut runner = TestRunner::new(Cases { cases: 10, failure_persistence: None, ..Cases::default() });
    if let Err(error) = sandbox.victim(|| runner.run(&vec(step(), 1..12), |steps| matches_the_model(&steps))) {
        panic!("{error}");
    }
}

/// Random sequences seldom delete a rule that covers another.
#[test]
fn a_covered_rule_of_the_file_returns_changes_and_goes_with_the_file() {
    let (prefix, limit, other, deny) = (4, 0, 1, 4);
    let covered = [Step::Reload(std::vec![(prefix, limit)]), Step::Set((prefix, deny))];
    let rest: [&[Step]; 4] = [
        &[Step::Delete(prefix)],
        &[Step::Reload(std::vec![(prefix, other)]), Step::Delete(prefix)],
        &[Step::Reload(Vec::new()), Step::Delete(prefix)],
        &[Step::Save, Step::Delete(prefix)],
    ];
    let sandbox = Sandbox::new();
    for rest in rest {
        let steps = [&covered, rest].concat();
        sandbox.victim(|| matches_the_model(&steps)).unwrap();
    }
}
