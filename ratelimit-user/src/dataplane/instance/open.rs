//! Opens, creates and removes the pins of an instance, under its lock.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ratelimit_common::maps::names;

use crate::dataplane::{
    Error,
    attach::attachment::Attachments,
    instance::{
        edit,
        lock::{Lock, lock},
        swap::{migration, pinned::Pinned, replace, staging},
    },
    pins::{
        bpffs,
        layout::{self, CHANGING, DAEMON, LINKS, NEXT, PROGRAM, PROGRAM_RAW},
        listing::Listing,
    },
    program::loader::{self, RequestedSettings, Settings},
    rules::batch::batch_marker,
    tables::open::Tables,
};

/// Opens the instance in `pins`, and returns its lock with it.
pub(super) fn open(pins: &Path) -> Result<(Pinned, Lock), Error> {
    let lock = lock(pins)?.ok_or(Error::NotAttached)?;
    if lock.listing.is_empty() { Err(Error::NotAttached) } else { Ok((locked(pins, &lock.listing, false)?, lock)) }
}

/// Brings what another build has created in `pins` to the layouts of this one. Returns whether it was another build's.
pub(super) fn take_over(pins: &Path) -> Result<bool, Error> {
    // An unfinished instance is removed by `attach`.
    let Some(lock) = lock(pins)?.filter(|_| layout::is_complete(pins)) else { return Ok(false) };
    let is_other = matches!(Tables::locked(pins, &lock.listing), Err(Error::OtherAbi { .. }));
    locked(pins, &lock.listing, true).map(|_| is_other)
}

/// Opens a locked instance. With `migrates`, one of another build is brought to the layouts of this one.
fn locked(pins: &Path, listing: &Listing, migrates: bool) -> Result<Pinned, Error> {
    let mut listing = listing.clone();
    if !listing.has(PROGRAM) {
        return Err(Error::Interrupted);
    }
    let attachments = Attachments::in_folder(&pins.join(LINKS));
    if listing.has(NEXT) {
        staging::recover(pins, &attachments)?;
        listing = Listing::read(pins)?;
    }
    let tables = match Tables::locked(pins, &listing) {
        Err(Error::OtherAbi { .. }) if migrates => {
            migration::migrate(pins, &attachments)?;
            listing = Listing::read(pins)?;
            Tables::locked(pins, &listing)?
        }
        outcome => outcome?,
    };
    // A killed upgrade leaves pins under the names of the other version. Now it is known that this version's are in use.
    for other in names::PINNED.into_iter().filter_map(layout::other_name).filter(|other| listing.has(other)) {
        layout::remove_file(&pins.join(other))?;
    }
    let mut pinned = Pinned { pins: pins.to_owned(), tables, attachments };
    if listing.has(PROGRAM_RAW) {
        replace::forget_raw(&pinned)?;
    }
    if listing.has(CHANGING) {
        batch_marker::recover(pins, &mut pinned.tables)?;
    }
    if names::MOVED.iter().any(|(_, old)| listing.has(old)) {
        replace::finish_resize(&mut pinned);
    }
    if pinned.tables.control()?.unfinished != 0 {
        // If a step fails, the next command tries again. Until then, the program does more work than necessary, and
        // limits share the levels within cells.
        let _ = edit::finish_upgrade(&mut pinned);
    }
    Ok(pinned)
}

/// Opens the instance in `pins`, or creates one without rules. Returns its lock with it, and whether it is new.
pub(super) fn open_or_create(pins: &Path, requested: &RequestedSettings) -> Result<(Pinned, Lock, bool), Error> {
    bpffs::ensure(pins)?;
    let lock = loop {
        match lock(pins)? {
            Some(lock) => break lock,
            None => layout::create_folder(pins)?,
        }
    };
    if lock.listing.has(PROGRAM) {
        return Ok((locked(pins, &lock.listing, true)?, lock, false));
    }
    // A killed attach leaves maps without a program, and attaches nothing. If there are links, the program's pin was
    // removed otherwise: the program may still run, and must not lose its rules.
    if !layout::is_empty(&pins.join(LINKS)) {
        return Err(Error::Interrupted);
    }
    remove_entries(pins)?;
    match create(pins, &requested.or(Settings::default())) {
        Ok(tables) => {
            let attachments = Attachments::in_folder(&pins.join(LINKS));
            Ok((Pinned { pins: pins.to_owned(), tables, attachments }, lock, true))
        }
        Err(error) => {
            // The operator must see the failure itself, not one of tidying up.
            let _ = remove_pins(pins);
            Err(error)
        }
    }
}

/// Loads and pins a program with new maps. The program comes last.
fn create(pins: &Path, settings: &Settings) -> Result<Tables, Error> {
    let mut object = loader::load(settings, Some(&|name| pins.join(name)))?;
    let mut tables = Tables::of(&mut object, settings)?;
    tables.seal(&Listing::read(pins)?)?;
    loader::pin(&mut object, settings, pins)?;
    Ok(tables)
}

/// Detaches from every interface and removes all pins in `pins`, also of another build. Returns the interfaces.
///
/// # Errors
///
/// [`Error::NotAttached`] if there are none, [`Error::Path`] if one cannot be removed.
pub fn remove_all(pins: &Path) -> Result<Vec<String>, Error> {
    let _lock = lock(pins)?.ok_or(Error::NotAttached)?;
    if !bpffs::can_pin(pins) {
        return Err(Error::PinsFolder(pins.to_owned()));
    }
    let attachments = Attachments::in_folder(&pins.join(LINKS));
    let names = attachments.names()?;
    attachments.detach_all()?;
    remove_pins(pins)?;
    Ok(names)
}

/// Returns other folders beside `pins` with an instance.
#[must_use]
pub fn others(pins: &Path) -> Vec<PathBuf> {
    let beside = pins.parent().and_then(|parent| fs::read_dir(parent).ok()).into_iter().flatten().flatten();
    let is_instance = |path: &PathBuf| path != pins && path.join(names::CONTROL).exists() && layout::is_complete(path);
    let mut others: Vec<PathBuf> = beside.map(|entry| entry.path()).filter(is_instance).collect();
    others.sort();
    others
}

/// Removes all pins of an instance, and their folder.
pub(super) fn remove_pins(pins: &Path) -> Result<(), Error> {
    remove_entries(pins)?;
    layout::remove_folder(pins)
}

fn remove_entries(pins: &Path) -> Result<(), Error> {
    staging::remove(pins)?;
    batch_marker::remove(pins)?;
    let moved = names::MOVED.into_iter().map(|(_, old)| old);
    for name in names::PINNED.into_iter().chain(moved).chain([PROGRAM_RAW, PROGRAM]) {
        layout::remove_file(&pins.join(name))?;
        if let Some(other) = layout::other_name(name) {
            layout::remove_file(&pins.join(other))?;
        }
    }
    layout::remove_folder(&pins.join(DAEMON))?;
    layout::remove_folder(&pins.join(LINKS))
}
