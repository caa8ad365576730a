//! Compares the rules of a file with those in force. Rules that commands have set stay, except those that the file repeats.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, SystemTime},
};

use ratelimit_common::rules::{
    comment::Comment,
    rule::{APPLICATION, BANNED, CONFIG, NEVER, SSH},
};
use ratelimit_dataplane::{
    rules::{
        batch::{Change, RequestedRule},
        list::{Covered, Listed},
        spec::RuleSpec,
        target::Target,
    },
    sys::host,
};

use crate::config::Planned;

/// The largest difference between two moments of expiry that count as the same. The wall clock is adjusted, the
/// monotonic one is not.
const SAME_END: Duration = Duration::from_secs(2);

/// The necessary change.
#[derive(Debug, Default)]
pub struct Difference {
    /// The change for [`Instance::change`](ratelimit_dataplane::Instance::change).
    pub change: Change,
    /// The number of rules of the file that are in force already.
    pub unchanged: usize,
    /// Rules of the file that do not act now, because another rule has the same target.
    pub overruled: Vec<(Target, By)>,
}

/// What a rule of the file gives way to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A rule of a command.
    Command,
    /// A temporary rule, at whose end the file's returns.
    Temporary,
    /// The allow of an SSH session.
    Session,
}

impl By {
    fn of(rule: &Listed, waits_below: bool) -> Self {
        match rule.origin {
            _ if waits_below => Self::Temporary,
            SSH => Self::Session,
            _ => Self::Command,
        }
    }
}

/// Returns how to change the `running` rules so that the `planned` rules are in force at the time `now`.
#[must_use]
pub fn difference(running: &[Listed], planned: &[Planned], now: SystemTime) -> Difference {
    let mut rules: HashMap<Target, &Listed> = running
        .iter()
        .filter(|rule| !matches!(rule.origin, BANNED | APPLICATION))
        .map(|rule| (rule.target, rule))
        .collect();
    let mut found = Difference::default();
    let mut places = HashMap::new();
    for plan in planned {
        let left = match plan.until.map(|until| until.duration_since(now)) {
            // It has expired.
            Some(Err(_)) => continue,
            Some(Ok(left)) => Some(left),
            None => None,
        };
        match rules.remove(&plan.target) {
            Some(rule)
                if rule.spec == plan.spec
                    && is_same_end(rule.expires_in, left)
                    && is_same_comment(rule.comment.as_deref(), plan, rule.origin) =>
            {
                // A rule of a command that the file repeats is the file's from now on: it changes and goes with the file.
                if left.is_none() && rule.origin != CONFIG {
                    found.request(plan, left, &mut places);
                } else {
                    found.unchanged += 1;
                }
            }
            Some(rule) if rule.origin != CONFIG => {
                let waits_below = left.is_none() && is_free_below(rule, plan);
                found.overruled.push((plan.target, By::of(rule, waits_below)));
                if waits_below && !is_below(rule, plan) {
                    found.request(plan, left, &mut places);
                }
            }
            _ => found.request(plan, left, &mut places),
        }
    }
    let of_file = |origin: u8| origin == CONFIG;
    let (gone, others): (Vec<&Listed>, _) = rules.into_values().partition(|rule| of_file(rule.origin));
    let below = others.into_iter().filter(|rule| rule.covers.as_ref().is_some_and(|covered| of_file(covered.origin)));
    // A tool that denies the same source does so until its own end.
    let shared = gone.iter().filter(|rule| !rule.owners.is_empty());
    found.change.ended = shared.filter_map(|rule| ended(rule.target, rule.comment.as_deref())).collect();
    found.change.deleted = sorted(gone.into_iter());
    let below: Vec<&Listed> = below.collect();
    let shared = below.iter().filter_map(|rule| Some((rule.target, rule.covers.as_ref()?)));
    let shared = shared.filter(|(_, covered)| !covered.owners.is_empty());
    found.change.ended.extend(shared.filter_map(|(target, covered)| ended(target, covered.comment.as_deref())));
    found.change.deleted_below = sorted(below.into_iter());
    found
}

/// Returns the owner that ends, with the rule *deny* of a target.
fn ended(target: Target, comment: Option<&str>) -> Option<(Target, Comment)> {
    Some((target, Comment::new(comment.unwrap_or_default()).ok()?))
}

fn sorted<'r>(rules: impl Iterator<Item = &'r Listed>) -> Vec<Target> {
    let mut targets: Vec<Target> = rules.map(|rule| rule.target).collect();
    targets.sort_unstable();
    targets
}

/// Returns whether a rule of the file can wait below one of a command: that one expires, and covers no other rule of a
/// command.
fn is_free_below(rule: &Listed, plan: &Planned) -> bool {
    let is_free = |covered: &Covered| covered.origin == CONFIG || covered.spec == plan.spec;
    rule.expires_in.is_some() && rule.covers.as_ref().is_none_or(is_free)
}

/// Returns whether a rule of the file waits below one of a command.
fn is_below(rule: &Listed, plan: &Planned) -> bool {
    rule.covers.as_ref().is_some_and(|covered| {
        let is_same = covered.origin == CONFIG && covered.spec == plan.spec;
        is_same && is_same_comment(covered.comment.as_deref(), plan, CONFIG)
    })
}

/// Returns how to change the `running` rules so that the `timed` rules end at the right time. Others stay.
#[must_use]
pub fn of_ends(running: &[Listed], timed: &[Planned], now: SystemTime) -> Change {
    let mut change = difference(running, timed, now).change;
    let timed: HashSet<Target> = timed.iter().map(|plan| plan.target).collect();
    change.deleted.retain(|target| timed.contains(target));
    change.deleted_below.clear();
    // These rules were in force, maybe with a capacity of an interface that is gone.
    change.awaits_capacity = true;
    change
}

impl Difference {
    /// Adds a rule to the change. `places` are the indices of limits in the change, which many rules share.
    fn request<'p>(&mut self, plan: &'p Planned, left: Option<Duration>, places: &mut HashMap<&'p RuleSpec, usize>) {
        let expires =
            left.map_or(NEVER, |left| host::now().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(NEVER)));
        let known = &mut self.change.specs;
        let spec = *places.entry(&plan.spec).or_insert_with(|| {
            known.push(RuleSpec::clone(&plan.spec));
            known.len() - 1
        });
        self.change.rules.push(RequestedRule { target: plan.target, spec, expires, origin: CONFIG });
        self.change.comments.extend(plan.comment.as_ref().map(|comment| (plan.target, **comment)));
    }
}

/// Returns whether a rule has the comment of the file. A command's rule with an end keeps its own.
fn is_same_comment(comment: Option<&str>, plan: &Planned, origin: u8) -> bool {
    origin != CONFIG || comment == plan.comment.as_ref().and_then(|comment| comment.get())
}

fn is_same_end(running: Option<Duration>, planned: Option<Duration>) -> bool {
    match (running, planned) {
        (None, None) => true,
        (Some(running), Some(planned)) => running.abs_diff(planned) <= SAME_END,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ratelimit_common::{limits::policy::Policy, rules::rule::COMMAND};

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    fn in_force(source: &str, expires_in: Option<Duration>, origin: u8) -> Listed {
        Listed {
            target: target(source),
            spec: Arc::new(Policy::DENIED.into()),
            expires_in,
            origin,
            covers: None,
            comment: None,
            owners: Vec::new(),
        }
    }

    fn planned(source: &str, until: Option<SystemTime>) -> Planned {
        Planned { target: target(source), spec: Arc::new(Policy::DENIED.into()), until, comment: None }
    }

    #[test]
    fn a_rule_of_a_command_that_the_file_repeats_becomes_the_files() {
        let now = SystemTime::now();
        let of_command = |source, left| in_force(source, left, COMMAND);
        let running =
            [of_command("192.0.2.1", None), of_command("192.0.2.2", Some(HOUR)), of_command("192.0.2.3", None)];
        let found = difference(&running, &[planned("192.0.2.1", None), planned("192.0.2.2", Some(now + HOUR))], now);
        let written: Vec<_> = found.change.rules.iter().map(|rule| (rule.target, rule.origin)).collect();
        assert_eq!(written, [(target("192.0.2.1"), CONFIG)]);
        assert!(found.unchanged == 1 && found.overruled.is_empty() && found.change.deleted.is_empty());
        // So does one below a temporary rule, which stays.
        let below = |policy: Policy| {
            let covered = Covered { spec: Arc::new(policy.into()), origin: COMMAND, comment: None, owners: Vec::new() };
            let above = Listed { spec: Arc::new(Policy::ALLOWED.into()), ..of_command("192.0.2.4", Some(HOUR)) };
            let running = [Listed { covers: Some(covered), ..above }];
            difference(&running, &[planned("192.0.2.4", None)], now).change.rules.len()
        };
        assert_eq!([Policy::DENIED, Policy::UNLIMITED].map(below), [1, 0]);
    }

    #[test]
    fn what_a_rule_of_the_file_gives_way_to_is_told() {
        let now = SystemTime::now();
        let allow =
            |left, origin| Listed { spec: Arc::new(Policy::ALLOWED.into()), ..in_force("192.0.2.1", left, origin) };
        let of_command =
            Covered { spec: Arc::new(Policy::UNLIMITED.into()), origin: COMMAND, comment: None, owners: Vec::new() };
        let by = |rule: Listed, until| difference(&[rule], &[planned("192.0.2.1", until)], now).overruled[0].1;
        assert_eq!(by(allow(None, COMMAND), None), By::Command);
        assert_eq!(by(allow(None, SSH), None), By::Session);
        assert_eq!(by(allow(Some(HOUR), COMMAND), None), By::Temporary);
        // At the end of these, the rule of the file does not return.
        assert_eq!(by(Listed { covers: Some(of_command), ..allow(Some(HOUR), COMMAND) }, None), By::Command);
        assert_eq!(by(allow(Some(HOUR), COMMAND), Some(now + 2 * HOUR)), By::Command);
    }

    #[test]
    fn when_the_clock_is_set_only_rules_with_another_end_change() {
        let now = SystemTime::now();
        let running = [
            in_force("192.0.2.1", Some(HOUR), CONFIG),
            in_force("192.0.2.2", None, CONFIG),
            in_force("192.0.2.3", Some(HOUR), COMMAND),
        ];
        let timed = [planned("192.0.2.1", Some(now + HOUR))];
        let changed = |now| {
            let change = of_ends(&running, &timed, now);
            let written: Vec<_> = change.rules.iter().map(|rule| (rule.target, rule.expires, rule.origin)).collect();
            (written, change.deleted)
        };
        assert_eq!(changed(now), (Vec::new(), Vec::new()));
        assert_eq!(changed(now + Duration::from_secs(1)), (Vec::new(), Vec::new()));
        for (set_to, left) in [(now - HOUR, 2 * HOUR), (now + HOUR / 2, HOUR / 2)] {
            let start = host::now();
            let (written, deleted) = changed(set_to);
            let [(rule, expires, CONFIG)] = written[..] else { panic!("{written:?}") };
            let after_start = Duration::from_nanos(expires - start);
            assert!(rule == target("192.0.2.1") && (left..left + Duration::from_secs(10)).contains(&after_start));
            assert!(deleted.is_empty(), "{deleted:?}");
        }
        assert_eq!(changed(now + 2 * HOUR), (Vec::new(), vec![target("192.0.2.1")]));
    }
}
