//! Comments of rules, and their further owners. A comment belongs to one rule, as [`comment::key`] tells. One whose rule
//! is gone is removed.

use std::{
    collections::{HashMap, HashSet},
    os::fd::AsFd as _,
};

use aya::maps::{IterableMap, MapError};
use ratelimit_common::{
    identity::{class::Class, source::Source},
    limits::policy::DENIED_ID,
    maps::names::COMMENTS_MAX,
    rules::{
        comment::{self, Comment, Owner},
        rule::{NEVER, Rule},
    },
};

use crate::{
    Error,
    error::Tried as _,
    sys::bpf,
    tables::{open::Tables, rule_maps},
};

/// The largest number of comments that are looked up one by one. More are read at once.
const FEW: usize = 64;

/// The comments of all rules, or of some.
#[derive(Default)]
pub struct Comments(HashMap<Source, Owner>);

impl Comments {
    /// Reads all comments.
    pub fn read(tables: &Tables) -> Result<Self, Error> {
        let all = bpf::entries(IterableMap::map(tables.comments.open()?).fd().as_fd())?;
        Ok(Self(all.into_iter().collect()))
    }

    /// Reads the comments with these keys.
    pub fn of(tables: &Tables, keys: &[Source]) -> Result<Self, Error> {
        if keys.len() > FEW {
            return Self::read(tables);
        }
        let mut found = HashMap::new();
        for key in keys {
            match tables.comments.open()?.get(key, 0) {
                Ok(comment) => drop(found.insert(*key, comment)),
                Err(MapError::KeyNotFound) => {}
                Err(error) => return Err(error).tried("cannot read a comment"),
            }
        }
        Ok(Self(found))
    }

    /// Reads the comments with these keys, and what belongs to the owners of these rules.
    pub fn of_owners(tables: &Tables, rules: &[(Source, Rule)]) -> Result<Self, Error> {
        let denying = || rules.iter().filter(|(_, rule)| has_deny(rule));
        if denying().count() > FEW {
            return Self::read(tables);
        }
        let own: Vec<Source> = denying().flat_map(|(source, rule)| keys(source, rule)).collect();
        let mut found = Self::of(tables, &own)?;
        for (source, _) in denying() {
            // Further owners are numbered without gaps, and most rules have none.
            for key in comment::all_further(source) {
                let Self(entry) = Self::of(tables, &[key])?;
                if entry.is_empty() {
                    break;
                }
                found.0.extend(entry);
            }
        }
        Ok(found)
    }

    /// Returns the entry with this key.
    pub fn owner(&self, key: &Source) -> Option<&Owner> {
        self.0.get(key)
    }

    /// Returns the comment with this key.
    pub fn get(&self, key: &Source) -> Option<Comment> {
        self.0.get(key).map(Owner::comment)
    }

    /// Returns the text of the comment with this key.
    pub fn text(&self, key: &Source) -> Option<Box<str>> {
        Some(self.get(key)?.get()?.into())
    }
}

/// Returns the keys of the comments of a rule and of the one that it covers.
pub fn keys(source: &Source, rule: &Rule) -> impl Iterator<Item = Source> + use<> {
    let source = *source;
    [Some(rule.bare()), rule.below()].into_iter().flatten().map(move |rule| comment::key(&source, &rule))
}

/// Returns whether a rule denies, or covers one that does. Only such a rule has further owners.
pub fn has_deny(rule: &Rule) -> bool {
    rule.policies().any(|policy| policy == DENIED_ID)
}

/// Returns all keys of entries that belong to a rule.
pub fn all_keys(source: &Source, rule: &Rule) -> impl Iterator<Item = Source> + use<> {
    let further = has_deny(rule).then(|| comment::all_further(source));
    keys(source, rule).chain(further.into_iter().flatten())
}

/// Writes entries.
///
/// # Errors
///
/// [`Error::TooManyComments`] if the map is full. Some are written then.
pub fn set(tables: &mut Tables, comments: &[(Source, Owner)]) -> Result<(), Error> {
    for (key, comment) in comments {
        let outcome = tables.comments.open_mut()?.insert(key, comment, 0);
        match outcome {
            // A full hash map returns E2BIG.
            Err(MapError::SyscallError(call)) if call.io_error.raw_os_error() == Some(libc::E2BIG) => {
                return Err(Error::TooManyComments(COMMENTS_MAX));
            }
            outcome => outcome.tried("cannot write a comment")?,
        }
    }
    Ok(())
}

/// Moves the ends of all further owners.
pub fn move_ends(tables: &mut Tables, earlier: impl Fn(u64) -> u64) -> Result<(), Error> {
    let all = Comments::read(tables)?.0.into_iter().filter(|(_, owner)| !matches!(owner.expires, 0 | NEVER));
    let moved = all.map(|(key, mut owner)| {
        owner.expires = earlier(owner.expires);
        (key, owner)
    });
    let moved: Vec<_> = moved.collect();
    set(tables, &moved)
}

/// Removes the comments with these keys, if there are any.
pub fn remove(tables: &mut Tables, keys: &[Source]) -> Result<(), Error> {
    let there: Option<HashSet<Source>> =
        if keys.len() > FEW { Some(Comments::read(tables)?.0.into_keys().collect()) } else { None };
    for key in keys.iter().filter(|key| there.as_ref().is_none_or(|there| there.contains(*key))) {
        match tables.comments.open_mut()?.remove(key) {
            Ok(()) | Err(MapError::KeyNotFound) => {}
            Err(MapError::SyscallError(call)) if call.io_error.raw_os_error() == Some(libc::ENOENT) => {}
            outcome => outcome.tried("cannot delete a comment")?,
        }
    }
    Ok(())
}

/// Removes every comment without its rule, after a change that was killed.
pub fn repair(tables: &mut Tables) -> Result<(), Error> {
    let all = Comments::read(tables)?.0;
    if all.is_empty() {
        return Ok(());
    }
    let rules = rule_maps::sources(tables)?.into_iter().chain(rule_maps::prefixes(tables)?);
    let mut known: HashSet<Source> = rules.flat_map(|(source, rule)| all_keys(&source, &rule)).collect();
    for (class, entry) in (0..=Class::MAX).zip(tables.classes.all()?) {
        known.insert(comment::of_default(class, entry.default_policy, entry.default_origin));
    }
    let gone: Vec<Source> = all.into_keys().filter(|key| !known.contains(key)).collect();
    remove(tables, &gone)
}
