//! The store of rules of callers in a fleet: reads the engine, and writes changes to it.

use std::{cmp::Reverse, path::Path};

use jiff::Timestamp;
use ratelimit_base::{notify::journal::Level, text::excerpt::message};
use ratelimit_fleet::{
    engine::Engine,
    kept::{followed::News, rules::REQUESTS},
};
use ratelimit_protocol::fleet::Version;
use serde_json::Value;

use super::{
    audit::ANSWER,
    entry::Entry,
    in_force::InForce,
    problem::few_of,
    restore,
    shared::{Member, NONSENSE, Shared, random, tell},
    store::{ReadLog, Store, StoreError, Write},
    teams::Teams,
};
use crate::config::stored::{self, Contents};

/// The store of a server in a fleet.
pub(super) struct Joined(Shared);

impl Joined {
    /// Takes a file, which need not exist, for this server. Returns its rules too, or why they cannot be read.
    pub(super) fn open(path: &Path, member: Member) -> Result<(Self, Result<Contents, StoreError>), StoreError> {
        Shared::open(path, member).map(|(shared, contents)| (Self(shared), contents))
    }
}

impl Store for Joined {
    fn news(&mut self) -> Result<Option<Contents>, StoreError> {
        let Self(shared) = self;
        let engine = shared.engine()?;
        let fleet = shared.known.fleet.clone();
        let found = read(shared, &engine)?;
        if shared.followed.seen().is_some_and(|seen| seen.version == 0) {
            restore::fill(shared, &engine)?;
        }
        match found {
            // The rules of a new fleet have other versions.
            None if shared.known.fleet != fleet => Ok(Some(shared.known.clone())),
            // It was told already that they cannot be read.
            Some((_, contents)) if contents.fleet.is_none() => Err(StoreError::Unusable(NONSENSE.to_owned())),
            found => Ok(found.map(|(_, contents)| contents)),
        }
    }

    fn settle(&mut self, outcome: Result<(), String>) {
        let Self(shared) = self;
        match (outcome, shared.next.take()) {
            (Ok(()), Some((version, contents))) => {
                restore::keep_replaced(shared, &contents);
                shared.refused.is_gone("the rules of callers in the engine are in force");
                shared.take(version, contents);
            }
            (Err(problem), next) => {
                shared.next = next;
                let problem = message(&problem);
                shared.refused.is_there(|| {
                    format!("the rules of callers in the engine are refused: {problem}: those before stay in force")
                });
                shared.show();
            }
            (Ok(()), None) => {}
        }
    }

    fn leave_out(&mut self, in_force: &InForce) {
        let Self(shared) = self;
        let is_new = |(name, _): &(&str, &str)| !shared.left_out.contains(*name);
        let (names, problems): (Vec<_>, Vec<_>) =
            in_force.left_out().filter(is_new).map(|(name, problem)| (name.to_owned(), problem)).unzip();
        if let Some(problem) = problems.first() {
            let text =
                format!("rules of callers do not fit this server, and are left out: {}: {problem}", few_of(&names));
            tell(Level::Warning, &message(&text));
        }
        shared.left_out = in_force.left_out().map(|(name, _)| name.to_owned()).collect();
        shared.show();
    }

    fn known(&self) -> Result<Contents, StoreError> {
        let Self(shared) = self;
        Ok(shared.known.clone())
    }

    fn write(&mut self, write: Write<'_>, entry: &Entry<'_>, teams: &Teams) -> Result<(), StoreError> {
        let Self(shared) = self;
        let engine = shared.engine()?;
        restore::may_begin(shared)?;
        let name = write.name;
        let mut next = write.applied_to(&shared.known)?;
        check_length(&shared.known, &next, name, teams)?;
        next.fleet.get_or_insert_with(random);
        shared.put(&engine, next, entry, teams)
    }

    fn log(&self, teams: &Teams) -> Result<ReadLog, StoreError> {
        let Self(shared) = self;
        let unread = |error: &str| StoreError::Unreachable(format!("the log of changes cannot be read: {error}"));
        let engine = shared.engine().map_err(|_| unread("the engine of the fleet does not answer"))?;
        let (store, runtime) = (shared.followed.store().clone(), shared.member.runtime.clone());
        let parts = teams.parts();
        Ok(Box::new(move |most, wanted| {
            let mut all: Vec<(Value, usize)> = Vec::new();
            for part in &parts {
                let texts = runtime.block_on(store.texts(&engine, part, REQUESTS.logged));
                for text in texts.map_err(|error| unread(&error.to_string()))? {
                    let Ok(entry) = serde_json::from_str::<Value>(&text) else { continue };
                    if entry["name"].as_str().is_some_and(wanted) {
                        all.push((entry, text.len()));
                    }
                }
            }
            // Each part has its newest ones first.
            all.sort_by_cached_key(|(entry, _)| Reverse(age(entry)));
            let mut bytes = 0;
            let fits = |(_, length): &(_, usize)| {
                bytes += length;
                bytes <= ANSWER
            };
            Ok(all.into_iter().take(most).take_while(fits).map(|(entry, _)| entry).collect())
        }))
    }
}

/// Bytes of the text of all rules that are of no rule.
const HEAD: usize = 1 << 10;

/// Checks that a team has room in the text of all rules for one that it has just written.
fn check_length(before: &Contents, next: &Contents, name: &str, teams: &Teams) -> Result<(), StoreError> {
    let team = teams.of_rule(name);
    let length = |contents: &Contents| -> usize {
        let own = contents.rules.iter().filter(|(name, _)| teams.of_rule(name) == team);
        own.map(|(name, stored)| stored::write_rule(name, stored).len()).sum()
    };
    let (length, was, most) = (length(next), length(before), (REQUESTS.text - HEAD) / teams.shares());
    // What a team has already stays.
    if length > was && length > most {
        let problem = format!(
            "the rules of this scope would have {length} bytes, at most {most} are possible in a fleet: delete one first, \
             or give them fewer values"
        );
        return Err(StoreError::Unusable(problem));
    }
    Ok(())
}

/// Returns what orders changes by their time. Versions begin anew with each fleet.
fn age(entry: &Value) -> (Option<Timestamp>, Option<u64>) {
    (entry["at"].as_str().and_then(|at| at.parse().ok()), entry["version"].as_u64())
}

/// Reads the engine. Returns what it has, unless that is in force here.
fn read(shared: &mut Shared, engine: &Engine) -> Result<Option<(Version, Contents)>, StoreError> {
    let before = shared.followed.known().cloned();
    let read = shared.member.runtime.block_on(shared.followed.read(engine)).map_err(|error| shared.unread(&error))?;
    shared.failures = 0;
    shared.unread.is_gone("the rules of callers can be read again");
    shared.member.shown.read_rules();
    let is_empty = shared.followed.seen().is_none_or(|seen| seen.version == 0);
    let found = match read {
        _ if is_empty => {
            shared.next = None;
            shared.refused.is_gone("the engine has no rules of callers any more");
            return Ok(None);
        }
        News::Same => return Ok(shared.next.clone()),
        News::Lost(version) => version,
        News::Next { .. } => shared.followed.known().cloned().unwrap_or_default(),
    };
    // It is not known before it is in force.
    shared.followed.take(before);
    shared.empty = None;
    let contents = match stored::parse(&found.text) {
        Ok(contents) if contents.version == found.version && shared.is_possible(&contents) => contents,
        Ok(_) => return Err(shared.nonsense(found, "they have no name of a fleet, or no version that is possible")),
        Err(problem) => return Err(shared.nonsense(found, &problem.to_string())),
    };
    if restore::is_behind(shared, &contents) {
        shared.next = None;
        shared.refused.is_gone("the rules of callers that the engine has now make sense");
        restore::write_again(shared, engine, &contents)?;
        return Ok(None);
    }
    shared.next = (contents != shared.known).then_some((found, contents));
    if shared.next.is_none() {
        shared.refused.is_gone("the rules of callers in the engine are in force");
    }
    shared.show();
    Ok(shared.next.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        config::{self as requests, stored::Stored, written::Keys},
        serve::rules::Operators,
    };

    #[test]
    fn changes_are_in_the_order_of_their_time_and_not_of_their_versions() {
        let entry = |at: &str, version: u64| serde_json::json!({"at": at, "version": version});
        let mut all = [
            entry("2026-11-29T10:00:00Z", 900),
            entry("2026-11-29T10:00:00.5Z", 1),
            entry("2026-11-29T10:00:00.5Z", 2),
            entry("2026-11-29T10:00:00.25Z", 901),
        ];
        all.sort_by_cached_key(|entry| Reverse(age(entry)));
        assert_eq!(all.map(|entry| entry["version"].as_u64().unwrap()), [2, 1, 901, 900]);
    }

    #[test]
    fn a_team_fills_only_its_part_of_the_text_of_all_rules() {
        let token = |number: usize, scope: &str| {
            format!("[[token]]\nname = \"t{number}\"\nsha256 = \"{number:064x}\"\nscope = [\"rules:{scope}\"]\n")
        };
        let text = token(1, "a-*") + &token(2, "b-*") + &token(3, "*");
        let operators = Arc::new(Operators::of(requests::parse(&text).unwrap()));
        let in_force = InForce::at_start(operators, Contents::default()).unwrap();
        let teams = in_force.teams();
        let fill = |mut contents: Contents, beginning: &str| {
            for number in 0.. {
                let values: Vec<_> = (0..120).map(|value| toml::Value::from(format!("v{value:098}"))).collect();
                let condition = toml::Table::from_iter([("operation".to_owned(), values.into())]);
                let keys =
                    Keys::from_iter([("limits".to_owned(), "1/s".into()), ("match".to_owned(), condition.into())]);
                let (name, version) = (format!("{beginning}{number}"), contents.version + 1);
                let write = Write { name: &name, expected: None, version, keys: Some(&keys) };
                let next = write.applied_to(&contents).unwrap();
                match check_length(&contents, &next, &name, teams) {
                    Ok(()) => contents = next,
                    Err(error) => return (contents, number, error.to_string()),
                }
            }
            unreachable!()
        };
        let (all, of_a, error) = fill(Contents::default(), "a-");
        assert!(error.starts_with("the rules of this scope would have 36") && of_a > 20, "{of_a}: {error}");
        let (all, of_b, _) = fill(all, "b-");
        let (all, of_others, _) = fill(all, "c-");
        assert_eq!((of_b, of_others), (of_a, of_a));
        assert!(stored::write(&all).len() <= REQUESTS.text);
        // What is there already can be deleted, and becomes shorter.
        let smaller = Stored { version: 1_000, keys: Keys::from_iter([("limits".to_owned(), "1/s".into())]) };
        let mut next = all.clone();
        next.rules.insert("a-0".to_owned(), smaller);
        assert!(check_length(&all, &next, "a-0", &Teams::default()).is_ok());
        assert!(check_length(&next, &all, "a-0", &Teams::default()).is_ok());
    }
}
