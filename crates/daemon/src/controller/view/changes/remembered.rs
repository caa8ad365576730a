//! The last changes by the console, and their way back.

use std::collections::VecDeque;

use jiff::Timestamp;
use ratelimit_common::rules::{comment::Comment, rule::NEVER};
use ratelimit_dataplane::{
    rules::{batch::Change, list::Listed, target::Target},
    sys::host,
};
use ratelimit_protocol::view::LastChange;

use super::plan::words;

/// The most changes. A further one takes the place of the oldest.
const MOST: usize = 64;

/// The last changes, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    done: VecDeque<Done>,
    /// The number of the last change.
    last: u64,
}

/// A change that is in force.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) target: Target,
    /// The words of the rule after it.
    pub(super) after: Option<String>,
    pub(super) by: String,
    /// The command that makes the same change.
    pub(super) what: String,
    number: u64,
    at: Timestamp,
    /// The rule before, and the time when it was read, in nanoseconds of the monotonic clock.
    before: Option<Listed>,
    read: u64,
}

impl Done {
    /// Begins a change of a rule that has just been read.
    pub(super) fn begin(target: Target, before: Option<Listed>, by: &str, what: String) -> Self {
        let (by, read, at) = (by.to_owned(), host::now(), Timestamp::now());
        Self { target, before, by, what, read, at, after: None, number: 0 }
    }

    /// Ends it with the rule that is in force now.
    pub(super) fn end(&mut self, after: Option<String>) {
        self.after = after;
    }

    /// Returns the change that takes it back, and its words.
    pub(super) fn back(&self) -> (Result<Change, &'static str>, String) {
        let change = match &self.before {
            None => Ok(Change::delete(self.target)),
            Some(before) => back_to(before, self.read),
        };
        (change, format!("undo: {}", self.what))
    }

    pub(super) fn shown(&self) -> LastChange {
        LastChange {
            number: self.number,
            at: self.at.to_string(),
            by: self.by.clone(),
            what: self.what.clone(),
            before: self.before.as_ref().map(words),
            after: self.after.clone(),
        }
    }
}

/// Returns the change that gives a target the rule that it had at a time.
fn back_to(rule: &Listed, read: u64) -> Result<Change, &'static str> {
    let nanoseconds = |left: std::time::Duration| u64::try_from(left.as_nanos()).unwrap_or(NEVER);
    let expires = rule.expires_in.map_or(NEVER, |left| read.saturating_add(nanoseconds(left)));
    if expires <= host::now() {
        return Err("the rule before would have ended meanwhile.");
    }
    let comment = rule.comment.as_deref().and_then(|comment| Comment::new(comment).ok());
    let mut change = Change { specs: vec![(*rule.spec).clone()], awaits_capacity: true, ..Change::default() };
    change.add(rule.target, 0, expires, rule.origin, Some(comment.unwrap_or(Comment::EMPTY)));
    Ok(change)
}

impl Remembered {
    /// Adds a change. Returns its number.
    pub(super) fn add(&mut self, done: Done) -> u64 {
        // Pages outlast the daemon. So a number of an earlier daemon is none of this one.
        let now = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default();
        self.last = now.max(self.last + 1);
        // Only the last change of a rule has a way back.
        self.done.retain(|other| other.target != done.target);
        self.done.push_back(Done { number: self.last, ..done });
        if self.done.len() > MOST {
            self.done.pop_front();
        }
        self.last
    }

    /// Returns the change with this number.
    pub(super) fn get(&self, number: u64) -> Option<&Done> {
        self.done.iter().find(|done| done.number == number)
    }

    /// Returns the last change of a target.
    pub(super) fn last_of(&self, target: Target) -> Option<&Done> {
        self.done.iter().rev().find(|done| done.target == target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_changes_are_remembered_and_one_of_each_rule() {
        let mut remembered = Remembered::default();
        let target = |number: usize| format!("10.0.0.{number}").parse::<Target>().unwrap();
        let mut add = |number| remembered.add(Done::begin(target(number), None, "token:a", String::new()));
        let [first, second, third] = [add(1), add(1), add(2)];
        assert!(first < second && second < third);
        (3..=MOST).for_each(|number| _ = add(number));
        assert!(remembered.get(first).is_none() && remembered.get(second).is_some());
        remembered.add(Done::begin(target(MOST + 1), None, "token:a", String::new()));
        assert!(remembered.get(second).is_none() && remembered.last_of(target(2)).is_some());
        // A later daemon begins with higher numbers.
        assert!(Remembered::default().add(Done::begin(target(1), None, "token:a", String::new())) > third);
        assert_eq!(remembered.done.len(), MOST);
    }
}
