//! The list of CrowdSec in the maps of the instance.

use std::path::Path;

use ratelimit_common::rules::rule::CROWDSEC;
use ratelimit_dataplane::{
    Error, Instance,
    instance::read_only::View,
    lists::{
        action::Action,
        change::{ListChange, RequestedList},
        entries::Entries,
        listing::{self, CROWDSEC as NAME},
    },
};

/// Returns the number of entries of the list in force. None without the list.
///
/// # Errors
///
/// [`Error::NotAttached`] without an instance, and [`Error::Bpf`] if the kernel refuses.
pub(super) fn entries(pins: &Path) -> Result<Option<u64>, Error> {
    let all = listing::all(View::open(pins)?.tables())?;
    Ok(all.iter().find(|list| list.name == NAME).map(listing::Listing::entries))
}

/// Denies these sources until then, and no others. The caller has left out those of SSH sessions.
///
/// # Errors
///
/// [`Error::NotAttached`] without an instance, and those of [`Instance::renew_list`].
pub(super) fn put(pins: &Path, entries: Entries, expires: u64, rebuilds: bool) -> Result<(), Error> {
    if entries.is_empty() {
        return forget(pins);
    }
    let list =
        RequestedList { name: NAME.to_owned(), entries, action: Action::Deny, expires, origin: CROWDSEC, file: None };
    Instance::open_in_force(pins)?.renew_list(list, rebuilds)
}

/// Deletes the list. Without one, nothing is locked.
///
/// # Errors
///
/// [`Error::NotAttached`] without an instance, and those of [`Instance::change_lists`]. Nothing has changed then.
pub(super) fn forget(pins: &Path) -> Result<(), Error> {
    if entries(pins)?.is_none() {
        return Ok(());
    }
    let deleted = vec![NAME.to_owned()];
    Instance::open_in_force(pins)?.change_lists(&ListChange { deleted, ..ListChange::default() }, &|_| Ok(()))
}
