//! Any sequence of commands and reloads leaves the rules that a plain table has.

use std::{collections::BTreeMap, path::Path, time::Duration};

use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{Config as Cases, TestCaseError, TestRunner},
};
use ratelimit::{
    config::{self, Config, Planned, save},
    controller::change::apply,
    dataplane::{
        Instance,
        rules::{list, target::Target},
    },
};
use ratelimit_common::rules::rule::{COMMAND, CONFIG};
use ratelimit_tests::Sandbox;

const PINS: &str = "/sys/fs/bpf/ratelimit";

/// What rules can be about, as a file says it. The host and the prefix are kept in different maps, the services ask for another program.
const TARGETS: [&str; 6] = [
    "source = \"default\"",
    "source = \"default\"\nservice = \"udp/53\"",
    "source = \"10.0.0.1\"",
    "source = \"10.0.0.1\"\nservice = \"udp/53\"",
    "source = \"10.0.0.0/24\"",
    "source = \"2001:db8::/64\"",
];

/// What rules can say. The last two cannot be defaults.
const TERMS: [&str; 5] = [
    "packets = \"5/s\"",
    "packets = \"9/s\"\nbytes = \"1MB/s\"",
    "packets = \"7/m\"\nalgorithm = \"fixed-window\"",
    "policy = \"allow\"",
    "policy = \"deny\"\nuntil = 2099-01-01T00:00:00Z",
];

/// A rule by its places in those tables.
type Rule = (usize, usize);

#[derive(Debug, Clone)]
enum Step {
    /// Sets a rule by command.
    Set(Rule),
    /// Deletes one by command, whoever has set it.
    Delete(usize),
    /// Gives the file these rules, and has it read.
    Reload(Vec<Rule>),
    /// The same with an interface that cannot be attached to.
    Fail(Vec<Rule>),
    /// Makes what is in force the file, and has it read.
    Save,
    /// Ends the daemon, gives the file these rules, and starts it again.
    Restart(Vec<Rule>),
}

fn rule() -> impl Strategy<Value = Rule> {
    (0..TARGETS.len(), 0..TERMS.len()).prop_map(|(target, terms)| (target, if target < 2 { terms % 3 } else { terms }))
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

/// What is expected: the rules of the file, and those in force with their origin.
#[derive(Debug, Default)]
struct Model {
    file: BTreeMap<usize, usize>,
    running: BTreeMap<usize, (usize, u8)>,
}

impl Model {
    /// A file takes the place of the one before. What was set by command stays.
    fn reload(&mut self) {
        self.running.retain(|target, (_, origin)| *origin == COMMAND || self.file.contains_key(target));
        for (target, terms) in &self.file {
            let rule = self.running.entry(*target).or_insert((*terms, CONFIG));
            if rule.1 == CONFIG {
                rule.0 = *terms;
            }
        }
    }

    /// The same as the instance lists it.
    fn listed(&self) -> Vec<(Planned, u8)> {
        let mut rules: Vec<_> =
            self.running.iter().map(|(target, (terms, origin))| (planned((*target, *terms)), *origin)).collect();
        rules.sort_by_key(|(rule, _)| rule.target);
        rules
    }
}

fn text(interfaces: &str, rules: &BTreeMap<usize, usize>) -> String {
    let rules = rules.iter().map(|(target, terms)| format!("[[rule]]\n{}\n{}\n", TARGETS[*target], TERMS[*terms]));
    format!("interfaces = [{interfaces}]\n{}", rules.collect::<String>())
}

fn parse(text: &str) -> Config {
    config::parse(text).unwrap()
}

fn planned((target, terms): Rule) -> Planned {
    parse(&text("", &BTreeMap::from([(target, terms)]))).rules.remove(0)
}

/// A file for each target the first of these rules.
fn file(rules: &[Rule]) -> BTreeMap<usize, usize> {
    rules.iter().rev().copied().collect()
}

/// The daemon, as far as it is not the process: the file that it has, and that it begins anew.
struct Daemon(Config);

impl Daemon {
    fn apply(&self, is_first: bool) -> Result<(), TestCaseError> {
        apply::apply(Path::new(PINS), &self.0, is_first, &apply::Guarded::default(), &mut None)
            .map(drop)
            .map_err(|error| TestCaseError::fail(error.to_string()))
    }
}

fn take(step: &Step, model: &mut Model, daemon: &mut Daemon) -> Result<(), TestCaseError> {
    let open = || Instance::open(Path::new(PINS)).unwrap();
    match step {
        Step::Set(rule) => {
            let Planned { target, terms, until } = planned(*rule);
            let life = until.map(|until| until.elapsed().unwrap_err().duration());
            open().set_rule(target, &terms, life, COMMAND).unwrap();
            model.running.insert(rule.0, (rule.1, COMMAND));
        }
        Step::Delete(target) => {
            open().delete_rule(planned((*target, 0)).target).unwrap();
            model.running.remove(target);
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
            daemon.0 = parse(&save::save(&open()).unwrap());
            model.file = model.running.iter().map(|(target, (terms, _))| (*target, *terms)).collect();
            model.reload();
            daemon.apply(false)?;
        }
    }
    Ok(())
}

/// Every rule in force, as the model has them.
fn listed(instance: &Instance) -> Vec<(Target, ratelimit::dataplane::rules::spec::Terms, Option<Duration>, u8)> {
    let rules = list::list(&instance.tables).unwrap();
    rules.into_iter().map(|rule| (rule.target, (*rule.terms).clone(), rule.expires_in, rule.origin)).collect()
}

#[test]
fn any_sequence_of_commands_and_reloads_leaves_what_a_plain_table_has() {
    let sandbox = Sandbox::new();
    let mut runner = TestRunner::new(Cases { cases: 10, failure_persistence: None, ..Cases::default() });
    let outcome = sandbox.victim(|| {
        runner.run(&vec(step(), 1..12), |steps| {
            let (mut model, mut daemon) = (Model::default(), Daemon(parse(&text("\"eth0\"", &BTreeMap::new()))));
            daemon.apply(true)?;
            let outcome = steps.iter().enumerate().try_for_each(|(number, step)| {
                take(step, &mut model, &mut daemon)?;
                let instance = Instance::open(Path::new(PINS)).unwrap();
                let (listed, expected) = (listed(&instance), model.listed());
                let same = listed.len() == expected.len()
                    && listed.iter().zip(&expected).all(|((target, terms, expires_in, origin), (rule, by))| {
                        let ends = rule.until.map(|until| until.elapsed().unwrap_err().duration());
                        let same_end = match (expires_in, ends) {
                            (Some(left), Some(expected)) => left.abs_diff(expected) < Duration::from_secs(5),
                            (left, expected) => *left == expected,
                        };
                        (target, terms, origin) == (&rule.target, &rule.terms, by) && same_end
                    });
                prop_assert!(same, "after step {number}: {listed:?} instead of {expected:?}");
                prop_assert_eq!(instance.attachments.list().unwrap().len(), 1);
                Ok(())
            });
            Instance::open(Path::new(PINS)).unwrap().remove().unwrap();
            outcome
        })
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
