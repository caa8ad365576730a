//! A rule that expires covers one that stays. Here a change meets the rules in its places: what covers what, and what
//! returns.

use std::collections::HashMap;

use ratelimit_common::{
    identity::source::Source,
    limits::policy::DENIED_ID,
    rules::{
        comment::{Comment, Owner},
        rule::{APPLICATION, CONFIG, Covered, FILLED, NEVER, Rule},
    },
};

use crate::rules::{
    batch::free_space::{Entry, Existing, Plan},
    comments::has_deny,
    owners::{Owners, Sharing},
    rule_key::Place,
};

/// Gives each new rule what it covers. Returns how many rules stay without an end, although the new ones have one.
pub(super) fn cover(plan: &mut Plan, existing: &Existing, now: u64) -> usize {
    let mut lasting = 0;
    let Plan { sources, prefixes, remarks, comments, keeps_comments, owners, further, sharing, forgotten, .. } = plan;
    let mut cover = |entries: &mut [Entry], rules: &HashMap<Source, Rule>| {
        for (source, rule) in entries {
            let (old, given) = (rules.get(source), (comments.get(source), *keeps_comments));
            let in_force = old.and_then(|rule| rule.at(now));
            let mut at_its_place = above(*rule, in_force);
            let further = further.get(source).map(Vec::as_slice).unwrap_or_default();
            let known =
                if further.is_empty() { owners.get_mut(source) } else { Some(owners.entry(*source).or_default()) };
            let joined = known.and_then(|owners| {
                // Without owners, the rule in its place does not deny.
                let denying = in_force.and_then(|rule| if owners.is_covered() { rule.below() } else { Some(rule) });
                let denying = denying.filter(|_| !owners.all().is_empty());
                let new = match joining(rule, owners, given, *sharing) {
                    None if !further.is_empty() => own(rule, given),
                    new => new?,
                };
                for new in [&new].into_iter().chain(further) {
                    *forgotten += usize::from(join(owners, *new).is_some());
                }
                Some((owners.rule(denying.unwrap_or(at_its_place))?, owners))
            });
            match joined {
                Some((joined, owners)) => {
                    at_its_place = joined;
                    remarks.own(source, &at_its_place, owners, old);
                }
                None => {
                    remarks.write(given, source, rule, &at_its_place, old, now);
                    if !has_deny(&at_its_place)
                        && let Some(owners) = owners.get(source)
                    {
                        remarks.forget_further(source, owners, 0);
                    }
                }
            }
            lasting += usize::from(rule.expires != NEVER && at_its_place.expires == NEVER);
            *rule = at_its_place;
        }
    };
    cover(sources, &existing.sources);
    cover(prefixes, &existing.prefixes);
    lasting
}

/// Writes what returns in the place of each deleted rule.
pub(super) fn uncover(plan: &mut Plan, existing: &Existing, now: u64) {
    end_owners(plan, existing, now);
    let Plan { deleted, deleted_below, remarks, owners, .. } = plan;
    for (source, place) in deleted.iter() {
        let old = existing.get(source, place);
        remarks.delete(source, old, now);
        let returns_deny = old.and_then(|old| old.at(now)?.below()).is_some_and(|below| has_deny(&below));
        if let Some(owners) = owners.get(source).filter(|_| !returns_deny) {
            remarks.forget_further(source, owners, 0);
        }
    }
    for (source, place) in deleted_below.iter() {
        remarks.delete_below(source, existing.get(source, place));
        if let Some(owners) = owners.get(source).filter(|owners| owners.is_covered()) {
            remarks.forget_further(source, owners, 0);
        }
    }
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

/// Keeps each rule of which only one owner ends.
fn end_owners(plan: &mut Plan, existing: &Existing, now: u64) {
    let Plan { sources, prefixes, deleted, deleted_below, ended, owners, remarks, .. } = plan;
    let mut goes = |(source, place): &(Source, Place), is_below: bool| {
        let (Some(comment), Some(owners)) = (ended.get(source), owners.get_mut(source)) else { return true };
        let old = existing.get(source, place);
        let in_force = old.and_then(|old| old.at(now));
        // A rule *deny* that covers another has the further owners. The one above another has just expired.
        let is_below = is_below && in_force.is_some_and(|rule| rule.expires != NEVER);
        if owners.all().is_empty() || owners.is_covered() != is_below {
            return true;
        }
        if !owners.end(comment) {
            // It has ended before.
            return false;
        }
        let stays = in_force.and_then(|rule| if is_below { owners.above(rule) } else { owners.rule(rule) });
        if let Some(rule) = stays {
            remarks.own(source, &rule, owners, old);
            if place.is_source() { sources.push((*source, rule)) } else { prefixes.push((*source, rule)) }
        }
        stays.is_none()
    };
    deleted.retain(|entry| goes(entry, false));
    deleted_below.retain(|entry| goes(entry, true));
}

/// Returns the owner that a rule *deny* adds to those of the one in its place. None if it only changes that one, or goes
/// below it.
fn joining(new: &Rule, owners: &Owners, (given, keeps): (Option<&Comment>, bool), sharing: Sharing) -> Option<Owner> {
    let first = owners.all().first().filter(|_| new.policy == DENIED_ID)?;
    let is_of_file = new.origin == CONFIG;
    let comment = given.copied().unwrap_or_default();
    let lasts = owners.all().iter().any(|owner| owner.comment() == comment && owner.expires == NEVER);
    let stays = match (first.expires, new.expires) {
        _ if is_of_file && owners.is_covered() => true,
        // A file has one rule for each target, and does not end what a command has set for a time.
        _ if is_of_file => owners.further().is_empty() || first.expires != NEVER && first.origin != u32::from(CONFIG),
        // An operator repeats the rule, or changes its comment.
        (NEVER, NEVER) => {
            let has_none = first.comment() == Comment::EMPTY;
            let gets_name = sharing == Sharing::Renamed || sharing == Sharing::Named && has_none;
            given.is_none() && keeps || comment == Comment::EMPTY || gets_name
        }
        // The same rule with an end does not shorten one without.
        (_, end) => lasts && end != NEVER,
    };
    (!stays).then(|| own(new, (given, keeps)))
}

/// Returns the owner of a rule that is requested.
fn own(rule: &Rule, (given, _): (Option<&Comment>, bool)) -> Owner {
    Owner::new(given.unwrap_or(&Comment::EMPTY), rule.origin, rule.expires)
}

/// Adds an owner. One of a file takes the place of the first. Returns the one that is forgotten.
fn join(owners: &mut Owners, mut new: Owner) -> Option<Owner> {
    if new.origin == u32::from(FILLED) {
        // It stands for many bans, and ends with the last of them.
        let known = owners.all().iter().find(|known| known.comment() == new.comment());
        new.expires = known.map_or(new.expires, |known| known.expires.max(new.expires));
    }
    if new.origin == u32::from(CONFIG) {
        owners.replace_first();
    }
    owners.set(new)
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
