//! A rule that expires covers one that stays. Here a change meets the rules in its places: what covers what, and what
//! returns.

use std::collections::HashMap;

use ratelimit_common::{
    identity::source::Source,
    rules::rule::{APPLICATION, CONFIG, Covered, NEVER, Rule},
};

use crate::rules::{
    batch::free_space::{Entry, Existing, Plan},
    rule_key::Place,
};

/// Gives each new rule what it covers. Returns how many rules stay without an end, although the new ones have one.
pub(super) fn cover(plan: &mut Plan, existing: &Existing, now: u64) -> usize {
    let mut lasting = 0;
    let Plan { sources, prefixes, remarks, comments, keeps_comments, .. } = plan;
    let mut cover = |entries: &mut [Entry], rules: &HashMap<Source, Rule>| {
        for (source, rule) in entries {
            let old = rules.get(source);
            let at_its_place = above(*rule, old.and_then(|rule| rule.at(now)));
            lasting += usize::from(rule.expires != NEVER && at_its_place.expires == NEVER);
            remarks.write((comments.get(source), *keeps_comments), source, rule, &at_its_place, old, now);
            *rule = at_its_place;
        }
    };
    cover(sources, &existing.sources);
    cover(prefixes, &existing.prefixes);
    lasting
}

/// Writes what returns in the place of each deleted rule.
pub(super) fn uncover(plan: &mut Plan, existing: &Existing, now: u64) {
    let Plan { deleted, deleted_below, remarks, .. } = plan;
    deleted.iter().for_each(|(source, place)| remarks.delete(source, existing.get(source, place), now));
    deleted_below.iter().for_each(|(source, place)| remarks.delete_below(source, existing.get(source, place)));
    let in_force = |(source, place): &(Source, Place)| existing.get(source, place).and_then(|rule| rule.at(now));
    let (mut returning, mut deleted) = (Vec::new(), Vec::new());
    for entry in plan.deleted.drain(..) {
        match in_force(&entry).and_then(Rule::below) {
            Some(below) => returning.push((entry, below)),
            None => deleted.push(entry),
        }
    }
    for entry in plan.deleted_below.drain(..) {
        match in_force(&entry) {
            Some(rule) if rule.expires != NEVER => returning.push((entry, rule.bare())),
            // The one above has just expired.
            Some(_) => deleted.push(entry),
            None => {}
        }
    }
    plan.deleted = deleted;
    for ((source, place), rule) in returning {
        let entries = if place.is_source() { &mut plan.sources } else { &mut plan.prefixes };
        entries.push((source, rule));
    }
}

/// Returns what a place has when a rule is written there.
fn above(new: Rule, old: Option<Rule>) -> Rule {
    // A limit that an application has asked for gives way.
    let Some(old) = old.filter(|old| old.origin != APPLICATION) else { return new };
    let lasting = if old.expires == NEVER { Some(old) } else { old.below() };
    match (new.expires, new.origin) {
        // A file does not end what a command has set for a time.
        (NEVER, CONFIG) if old.expires != NEVER && old.origin != CONFIG => Rule { covered: Covered::new(&new), ..old },
        // A file has one rule for each target.
        (NEVER, _) | (_, CONFIG) => new,
        // Nothing changes at its end, and nothing would before.
        _ => match lasting {
            Some(lasting) if lasting.policy == new.policy => lasting,
            Some(lasting) => Rule { covered: Covered::new(&lasting), ..new },
            None => new,
        },
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{
        limits::policy::{ALLOWED_ID, DENIED_ID},
        rules::rule::COMMAND,
    };

    use super::*;

    const LATER: u64 = 2_000;

    fn rule(policy: u32, origin: u8, expires: u64) -> Rule {
        Rule { policy, prefix: 32, origin, covered: Covered::NONE, expires }
    }

    fn covering(above: Rule, below: Rule) -> Rule {
        Rule { covered: Covered::new(&below), ..above }
    }

    #[test]
    fn a_rule_that_expires_covers_the_lasting_one() {
        let lasting = rule(ALLOWED_ID, COMMAND, NEVER);
        let (first, second) = (rule(DENIED_ID, COMMAND, LATER), rule(7, COMMAND, LATER + 5));
        assert_eq!(above(first, None), first);
        assert_eq!(above(first, Some(lasting)), covering(first, lasting));
        assert_eq!(above(second, Some(covering(first, lasting))), covering(second, lasting));
        assert_eq!(above(second, Some(first)), second);
        assert_eq!(above(rule(7, COMMAND, NEVER), Some(covering(first, lasting))), rule(7, COMMAND, NEVER));
    }

    #[test]
    fn a_rule_that_expires_does_not_shorten_the_same_rule_that_stays() {
        let lasting = rule(DENIED_ID, CONFIG, NEVER);
        let (again, between) = (rule(DENIED_ID, COMMAND, LATER), rule(7, COMMAND, LATER));
        assert_eq!(above(again, Some(lasting)), lasting);
        assert_eq!(above(again, Some(covering(between, lasting))), lasting);
    }

    #[test]
    fn a_rule_of_a_file_goes_below_what_a_command_has_set_for_a_time() {
        let (of_file, older) = (rule(7, CONFIG, NEVER), rule(8, CONFIG, NEVER));
        let above_file = rule(DENIED_ID, COMMAND, LATER);
        assert_eq!(above(of_file, Some(above_file)), covering(above_file, of_file));
        assert_eq!(above(of_file, Some(covering(above_file, older))), covering(above_file, of_file));
        assert_eq!(above(of_file, Some(older)), of_file);
        let ending = rule(7, CONFIG, LATER);
        assert_eq!(above(ending, Some(older)), ending);
    }
}
