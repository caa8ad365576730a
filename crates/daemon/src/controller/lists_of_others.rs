//! Lists in the maps of the instance that say what a fleet or CrowdSec has told.

use std::path::Path;

use ratelimit_dataplane::{
    Error, Instance,
    instance::read_only::View,
    lists::{
        change::{ListChange, RequestedList},
        listing::{self, Listing},
    },
};

use crate::ssh::{self, ProtectedSessions};

/// Puts lists in force, and deletes others of this origin that are `gone`. A change that would block an SSH session is
/// refused.
///
/// # Errors
///
/// [`Error::NotAttached`] without an instance, [`Error::ShutOut`] if a session would be blocked, and those of
/// [`Instance::change_lists`]. Nothing has changed then.
pub(super) fn put(
    pins: &Path,
    origin: u8,
    set: Vec<RequestedList>,
    gone: &dyn Fn(&Listing) -> bool,
) -> Result<(), Error> {
    let is_gone = |list: &Listing| list.origin == origin && gone(list);
    // Nothing is locked if there is nothing to do.
    if set.is_empty() && !listing::all(View::open(pins)?.tables())?.iter().any(is_gone) {
        return Ok(());
    }
    let mut instance = Instance::open_in_force(pins)?;
    let gone = listing::all(&instance.tables)?.into_iter().filter(is_gone).map(|list| list.name);
    let deleted: Vec<String> = gone.collect();
    let is_shadow = instance.settings()?.shadow;
    let protected = ProtectedSessions::new(ssh::sessions(), "ratelimit allow add ADDRESS");
    let guard = ssh::Guard::over(&instance.tables, &protected, is_shadow, is_shadow)?;
    instance.change_lists(&ListChange { set, deleted }, &|tables| guard.check(tables))
}

/// Returns whether the list of this name is in force.
#[cfg(feature = "fleet")]
pub(super) fn is_there(pins: &Path, name: &str) -> Result<bool, Error> {
    listing::has(View::open(pins)?.tables(), name)
}

/// Deletes all lists of this origin. Without an instance, there are none.
pub(super) fn forget(pins: &Path, origin: u8) -> Result<(), Error> {
    match put(pins, origin, Vec::new(), &|_| true) {
        Err(Error::NotAttached(_)) => Ok(()),
        outcome => outcome,
    }
}
