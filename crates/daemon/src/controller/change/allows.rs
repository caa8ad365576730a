//! The rules *allow* of a file, which act before its lists do.

use std::collections::HashMap;

use ratelimit_common::{
    limits::policy::Policy,
    rules::{
        comment::Comment,
        rule::{BANNED, CONFIG, NEVER},
    },
};
use ratelimit_dataplane::rules::{
    batch::{Change, RequestedRule},
    list::Listed,
    spec::RuleSpec,
    target::Target,
};

/// Returns the part of a change that allows sources, and the change that undoes this part. None if it allows nothing. A rule
/// that covers another one, or that ends, comes with the rest of the change.
pub(super) fn first(change: &Change, running: &[Listed]) -> Option<[Change; 2]> {
    let is_allow = |rule: &&RequestedRule| change.specs[rule.spec].policy == Policy::ALLOWED;
    let mut rules: Vec<RequestedRule> = change.rules.iter().filter(is_allow).copied().collect();
    if rules.is_empty() {
        return None;
    }
    let running: HashMap<Target, &Listed> =
        running.iter().filter(|rule| rule.origin != BANNED).map(|rule| (rule.target, rule)).collect();
    let is_simple = |rule: &Listed| rule.origin == CONFIG && rule.expires_in.is_none();
    rules.retain(|rule| running.get(&rule.target).is_none_or(|before| is_simple(before)));
    // An allow outranks a ban, so both changes keep the bans. These rules were in force, maybe with a capacity of an
    // interface that is gone.
    let mut back = Change { keeps_bans: true, awaits_capacity: true, ..Change::default() };
    for RequestedRule { target, .. } in &rules {
        match running.get(target) {
            Some(before) => {
                let comment = before.comment.as_deref().and_then(|comment| Comment::new(comment).ok());
                back.specs.push(RuleSpec::clone(&before.spec));
                back.add(*target, back.specs.len() - 1, NEVER, CONFIG, comment);
            }
            None => back.deleted.push(*target),
        }
    }
    let given = |rule: &RequestedRule| Some((rule.target, *change.comments.get(&rule.target)?));
    let first = Change {
        specs: vec![Policy::ALLOWED.into()],
        comments: rules.iter().filter_map(given).collect(),
        rules: rules.into_iter().map(|rule| RequestedRule { spec: 0, ..rule }).collect(),
        keeps_bans: true,
        ..Change::default()
    };
    Some([first, back])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ratelimit_common::rules::rule::COMMAND;

    use super::*;

    fn in_force(source: &str, origin: u8) -> Listed {
        let (target, spec) = (source.parse().unwrap(), Arc::new(Policy::DENIED.into()));
        Listed { target, spec, expires_in: None, origin, covers: None, comment: Some("why".into()), owners: Vec::new() }
    }

    #[test]
    fn new_allows_and_those_in_place_of_rules_of_the_file_come_first_and_can_be_undone() {
        let mut change = Change { specs: vec![Policy::DENIED.into(), Policy::ALLOWED.into()], ..Change::default() };
        for (source, spec) in [("192.0.2.1", 1), ("192.0.2.2", 0), ("192.0.2.3", 1), ("192.0.2.4", 1)] {
            change.add(source.parse().unwrap(), spec, NEVER, CONFIG, Comment::new("new").ok());
        }
        let running = [in_force("192.0.2.3", CONFIG), in_force("192.0.2.4", COMMAND)];
        let [first, back] = super::first(&change, &running).unwrap();
        let targets = |rules: &[RequestedRule]| rules.iter().map(|rule| rule.target.to_string()).collect::<Vec<_>>();
        assert_eq!(targets(&first.rules), ["192.0.2.1", "192.0.2.3"]);
        assert!(first.specs == [Policy::ALLOWED.into()] && first.deleted.is_empty() && first.comments.len() == 2);
        assert_eq!(targets(&back.rules), ["192.0.2.3"]);
        assert_eq!(back.comments[&back.rules[0].target], Comment::new("why").unwrap());
        assert!(back.specs == [Policy::DENIED.into()] && back.deleted == ["192.0.2.1".parse().unwrap()]);
        change.rules.retain(|rule| rule.spec == 0);
        assert!(super::first(&change, &running).is_none());
    }
}
