//! Opens, creates and removes the pins of an instance, under its lock.

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use ratelimit_common::maps::{control::FEATURE_BYTES, names};
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::dataplane::{
    Error,
    attach::attachment::Attachments,
    error::at,
    instance::{
        edit,
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
pub(super) fn open(pins: &Path) -> Result<(Pinned, OwnedFd), Error> {
    let lock = lock(pins)?.ok_or(Error::NotAttached)?;
    let listing = Listing::of(&lock).map_err(at(pins))?;
    if listing.is_empty() { Err(Error::NotAttached) } else { Ok((locked(pins, listing, false)?, lock)) }
}

/// Brings what another build has created in `pins` to the layouts of this one. Returns whether it was another build's.
pub(super) fn take_over(pins: &Path) -> Result<bool, Error> {
    // An unfinished instance is removed by `attach`.
    let Some(_lock) = lock(pins)?.filter(|_| layout::is_complete(pins)) else { return Ok(false) };
    let listing = Listing::read(pins)?;
    let is_other = matches!(Tables::locked(pins, &listing), Err(Error::OtherAbi { .. }));
    locked(pins, listing, true).map(|_| is_other)
}

/// Opens a locked instance. With `migrates`, one of another build is brought to the layouts of this one.
fn locked(pins: &Path, mut listing: Listing, migrates: bool) -> Result<Pinned, Error> {
    if !listing.has(PROGRAM) {
        return Err(Error::Interrupted);
    }
    let attachments = Attachments::in_folder(&pins.join(LINKS));
    if listing.has(NEXT) {
        staging::recover(pins, &attachments)?;
        listing = Listing::read(pins)?;
    }
    let mut is_migrated = false;
    let tables = match Tables::locked(pins, &listing) {
        Err(Error::OtherAbi { .. }) if migrates => {
            is_migrated = true;
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
    if is_migrated {
        edit::spare(&mut pinned, FEATURE_BYTES);
    }
    Ok(pinned)
}

/// Opens the instance in `pins`, or creates one without rules. Returns its lock with it, and whether it is new.
pub(super) fn open_or_create(pins: &Path, requested: &RequestedSettings) -> Result<(Pinned, OwnedFd, bool), Error> {
    bpffs::ensure(pins)?;
    let lock = loop {
        match lock(pins)? {
            Some(lock) => break lock,
            None => create_folder(pins)?,
        }
    };
    let listing = Listing::read(pins)?;
    if listing.has(PROGRAM) {
        return Ok((locked(pins, listing, true)?, lock, false));
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

/// Returns whether another command has the lock of the instance in `pins`.
#[must_use]
pub fn is_locked(pins: &Path) -> bool {
    let folder = rustix::fs::open(pins, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let lock = folder.and_then(|folder| rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive));
    lock == Err(rustix::io::Errno::WOULDBLOCK)
}

/// Locks the folder of the pins. Returns none if there is no folder.
fn lock(pins: &Path) -> Result<Option<OwnedFd>, Error> {
    loop {
        let folder = match rustix::fs::open(pins, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(folder) => folder,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::ACCESS) => return Err(Error::NotOwner(pins.to_owned())),
            Err(error) => return Err(at(pins)(error.into())),
        };
        if !bpffs::is_on(&folder) {
            return Err(bpffs::missing(pins));
        }
        rustix::fs::flock(&folder, FlockOperation::LockExclusive).map_err(|error| at(pins)(error.into()))?;
        let locked = rustix::fs::fstat(&folder).map_err(|error| at(pins)(error.into()))?;
        // Meanwhile, the command that had the lock may have removed the folder, and another may have created it again.
        match fs::metadata(pins) {
            Ok(current) if current.ino() == locked.st_ino => return Ok(Some(folder)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(pins)(error)),
        }
    }
}

/// Creates the folder of the pins, unless another command has done so.
fn create_folder(pins: &Path) -> Result<(), Error> {
    match fs::DirBuilder::new().mode(0o700).create(pins) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(pins)(error)),
        _ => Ok(()),
    }
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
