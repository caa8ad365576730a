//! Gives an engine that has lost rules of callers those of this server.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use ratelimit_base::notify::journal::Level;
use ratelimit_fleet::engine::Engine;

use super::{
    entry::Entry,
    problem::few_of,
    shared::{HIGH, Shared, random, tell},
    store::StoreError,
    teams::Teams,
};
use crate::config::stored::{Contents, Stored};

/// Time in which a server that knows the rules of a fleet writes them to an empty engine: three looks.
const GRACE: Duration = Duration::from_secs(3);

/// Returns whether the engine has lost rules that this server knows.
pub(super) fn is_behind(shared: &Shared, contents: &Contents) -> bool {
    if contents.fleet == shared.known.fleet {
        return contents.version < shared.known.version;
    }
    // A server that was in no fleet has begun a new one, since the engine had lost the one of this server.
    shared.known.fleet.is_some() && contents.version == 1 && shared.known.version < HIGH
}

/// Fails while servers that know the rules of the fleet can still come first.
pub(super) fn may_begin(shared: &Shared) -> Result<(), StoreError> {
    let must_wait = shared.known.fleet.is_none() && shared.empty.is_some_and(|since| since.elapsed() < GRACE);
    if must_wait {
        let seconds = GRACE.as_secs();
        return Err(StoreError::Unreachable(format!(
            "nothing is changed: the engine has no rules, and other servers may know them: try again in {seconds} s"
        )));
    }
    Ok(())
}

/// Gives an engine without rules those of this server.
pub(super) fn fill(shared: &mut Shared, engine: &Engine) -> Result<(), StoreError> {
    shared.empty.get_or_insert_with(Instant::now);
    let is_nothing = shared.known.fleet.is_none() && shared.known.rules.is_empty();
    if is_nothing || may_begin(shared).is_err() {
        return Ok(());
    }
    let (action, next) = match shared.known.fleet {
        Some(_) => ("restore", renumbered(shared, shared.known.version.max(1))),
        None => ("join", begun(&shared.known, 1)),
    };
    write_all(shared, engine, action, next)?;
    let count = shared.known.rules.len();
    tell(Level::Info, &format!("the engine had no rules of callers: it has those of this server, {count} in all"));
    Ok(())
}

/// Writes the rules of this server in place of those in the engine, which are older. Those stay in a file.
pub(super) fn write_again(shared: &mut Shared, engine: &Engine, older: &Contents) -> Result<(), StoreError> {
    let next = renumbered(shared, shared.known.version.max(older.version).saturating_add(1));
    let (before, now) = (shared.known.version, next.version);
    write_all(shared, engine, "restore", next)?;
    let place = aside(shared, older);
    tell(
        Level::Warning,
        &format!(
            "the engine had lost version {before} of the rules of callers: it has them again, as version {now}, in \
             place of version {}: {place}",
            older.version
        ),
    );
    Ok(())
}

/// Returns the rules of this server with another version. One that no changes can reach ends with its fleet.
fn renumbered(shared: &Shared, version: u64) -> Contents {
    // Version 1 would say that a server has joined.
    if version >= HIGH { begun(&shared.known, 2) } else { Contents { version, ..shared.known.clone() } }
}

fn write_all(shared: &mut Shared, engine: &Engine, action: &'static str, next: Contents) -> Result<(), StoreError> {
    let version = next.version;
    let entry = Entry {
        at: Timestamp::now(),
        server: None,
        token: "",
        address: None,
        action,
        name: "*",
        old_version: None,
        version,
        undoes: None,
        old: None,
        new: None,
    };
    let outcome = shared.put(engine, next, &entry, &Teams::default());
    match &outcome {
        Ok(()) => shared.unrestored.is_gone("the rules of callers are in the engine again"),
        // Another server was first.
        Err(StoreError::Changed) => {}
        Err(error) => {
            let problem = error.to_string();
            shared.unrestored.is_there(|| format!("the rules of callers cannot be written to the engine: {problem}"));
        }
    }
    outcome
}

/// Tells the operator which rules of this server others replace without a change of them, and keeps those in a file.
pub(super) fn keep_replaced(shared: &Shared, next: &Contents) {
    let is_other_fleet = shared.known.fleet != next.fleet;
    let is_lost = |(name, stored): &(&String, &Stored)| {
        let now = next.rules.get(*name);
        let differs = now.map(|now| &now.keys) != Some(&stored.keys);
        // A change has a higher version. A rule that is gone was deleted, unless the engine counts other changes.
        let is_older = now.map_or(next.version == shared.known.version, |now| now.version <= stored.version);
        differs && (is_other_fleet || is_older)
    };
    let mut lost: Vec<_> = shared.known.rules.iter().filter(is_lost).map(|(name, _)| name.clone()).collect();
    if !is_other_fleet && shared.known.version == next.version {
        // This server has deleted them.
        lost.extend(next.rules.keys().filter(|name| !shared.known.rules.contains_key(*name)).cloned());
    }
    if lost.is_empty() {
        return;
    }
    let (names, place) = (few_of(&lost), aside(shared, &shared.known));
    tell(Level::Warning, &format!("the rules of callers in the engine replace {names} of this server: {place}"));
}

fn aside(shared: &Shared, contents: &Contents) -> String {
    match shared.copy.set_aside(contents) {
        Ok(path) => format!("{} has the rules before", path.display()),
        Err(error) => format!("the rules before cannot be kept: {error}"),
    }
}

/// Returns rules as the first ones of a new fleet, with this version.
fn begun(contents: &Contents, version: u64) -> Contents {
    let each = contents.rules.iter();
    let rules =
        each.map(|(name, stored)| (name.clone(), Stored { version: stored.version.min(version), ..stored.clone() }));
    Contents { version, fleet: Some(random()), rules: rules.collect() }
}
