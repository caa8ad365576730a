//! Opens or creates the pins of an instance, under its lock.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ratelimit_common::maps::names;

use crate::{
    Error,
    attach::{attachment::Attachments, covered, foreign_program},
    instance::{
        edit,
        lock::{Lock, lock},
        removal, segments, shadow,
        swap::{migration, pinned::Pinned, replace, staging},
    },
    lists,
    pins::{
        bpffs,
        layout::{self, CHANGING, LINKS, NEXT, PROGRAM},
        listing::Listing,
    },
    program::{
        loader::{self, RequestedSettings, Settings},
        programs::Kind,
        proofs,
    },
    rules::{change_mark, policies, repair::repair, suspend},
    spared::renew,
    sys::{
        features,
        signals::{self, Held},
    },
    tables::open::Tables,
};

/// Which instances may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// Every one. One of another version is brought to the layouts of this one.
    All,
    /// Those whose program this version has loaded.
    Own,
    /// The same, for a daemon that has started. So it never puts its own version in force again.
    InForce,
}

/// Opens the instance in `pins`, and returns its lock with it.
pub(super) fn open(pins: &Path, versions: Versions) -> Result<(Pinned, Lock), Error> {
    let lock = lock(pins)?.ok_or_else(|| covered::not_attached(pins))?;
    if !lock.listing.has_instance() {
        foreign_program::recover(pins, &lock.listing)?;
        return Err(covered::not_attached(pins));
    }
    Ok((locked(pins, &lock.listing, versions)?, lock))
}

/// Brings what another build has created in `pins` to the layouts of this one, and puts this build's program in force.
/// Returns whether something changed.
pub(super) fn take_over(pins: &Path) -> Result<bool, Error> {
    // An unfinished instance is removed by `attach`.
    let Some(lock) = lock(pins)?.filter(|_| layout::is_complete(pins)) else { return Ok(false) };
    let is_other = matches!(Tables::locked(pins, &lock.listing), Err(Error::OtherAbi { .. }));
    let mut pinned = locked(pins, &lock.listing, Versions::All)?;
    if pinned.tables.control()?.build == loader::build() {
        return Ok(is_other);
    }
    edit::upgrade(&mut pinned, &RequestedSettings::default()).map(|()| true)
}

/// Opens a locked instance.
fn locked(pins: &Path, listing: &Listing, versions: Versions) -> Result<Pinned, Error> {
    let mut listing = listing.clone();
    if !listing.has(PROGRAM) {
        return Err(Error::Interrupted);
    }
    let attachments = Attachments::in_folder(&pins.join(LINKS));
    if versions == Versions::InForce {
        of_version(Tables::locked(pins, &listing), pins, versions)?;
    }
    foreign_program::recover(pins, &listing)?;
    if listing.has(NEXT) {
        staging::recover(pins, &attachments)?;
        listing = Listing::read(pins)?;
    }
    let tables = match Tables::locked(pins, &listing) {
        Err(Error::OtherAbi { .. }) if versions == Versions::All => {
            migration::migrate(pins, &attachments)?;
            listing = Listing::read(pins)?;
            Tables::locked(pins, &listing)?
        }
        outcome => of_version(outcome, pins, versions)?,
    };
    // A killed upgrade leaves pins under the names of the other version. Now it is known that this version's are in use.
    for other in names::PINNED.into_iter().filter_map(layout::other_name).filter(|other| listing.has(other)) {
        layout::remove_file(&pins.join(other)).map_err(staging::unfinished)?;
    }
    let mut pinned = Pinned { pins: pins.to_owned(), tables, attachments };
    if Kind::OTHERS.iter().any(|kind| listing.has(kind.file())) {
        replace::forget_unused(&pinned)?;
        shadow::finish(&pinned)?;
    }
    // A rule that ends late is no reason to refuse a command.
    let _ = suspend::catch_up(&mut pinned.tables);
    if listing.has(CHANGING) {
        lists::repair(&mut pinned.tables)?;
        repair(&mut pinned.tables, &change_mark::recorded(pins)?)?;
        change_mark::remove(pins)?;
        edit::spare(&mut pinned, policies::OF_RULES);
    }
    if names::MOVED.iter().any(|(_, old)| listing.has(old)) {
        replace::finish_resize(&mut pinned);
    }
    if pinned.tables.control()?.unfinished != 0 {
        // If a step fails, the next command tries again. Until then, the program does more work than necessary, and
        // limits share the levels within cells.
        let _ = edit::finish_upgrade(&mut pinned);
    }
    renew::try_renew(&mut pinned);
    Ok(pinned)
}

/// Refuses maps of another version, or a program that another version has loaded.
fn of_version(tables: Result<Tables, Error>, pins: &Path, versions: Versions) -> Result<Tables, Error> {
    let other = |detail: String| match versions {
        Versions::InForce => Error::NotInForce,
        _ => Error::OtherAbi { path: pins.to_owned(), detail },
    };
    match tables {
        Err(Error::OtherAbi { detail, .. }) => Err(other(detail)),
        Ok(tables) if versions != Versions::All && tables.control()?.build != loader::build() => {
            Err(other("the program is of another build".to_owned()))
        }
        outcome => outcome,
    }
}

/// Opens the instance in `pins`, or creates one without rules. Returns its lock with it, and whether it is new.
pub(super) fn open_or_create(
    pins: &Path,
    requested: &RequestedSettings,
    versions: Versions,
) -> Result<(Pinned, Lock, bool), Error> {
    bpffs::ensure(pins)?;
    // The folder is a step too.
    let _held = Held::hold()?;
    let lock = loop {
        match lock(pins)? {
            Some(lock) => break lock,
            None => layout::create_folder(pins)?,
        }
    };
    if lock.listing.has(PROGRAM) {
        return Ok((locked(pins, &lock.listing, versions)?, lock, false));
    }
    // A killed attach leaves maps without a program, and attaches nothing. If there are links, the program's pin was
    // removed otherwise: the program may still run, and must not lose its rules.
    if !layout::is_empty(&pins.join(LINKS)) {
        return Err(Error::Interrupted);
    }
    foreign_program::recover(pins, &lock.listing)?;
    removal::remove_entries(pins)?;
    match create(pins, &requested.of_new()) {
        Ok(tables) => {
            let attachments = Attachments::in_folder(&pins.join(LINKS));
            let mut pinned = Pinned { pins: pins.to_owned(), tables, attachments };
            segments::try_renew(&mut pinned);
            renew::try_renew(&mut pinned);
            Ok((pinned, lock, true))
        }
        Err(error) => {
            // The operator must see the failure itself, not one of tidying up.
            let _ = removal::remove_pins(pins);
            Err(error)
        }
    }
}

/// Loads and pins a program with new maps. The program comes last.
fn create(pins: &Path, settings: &Settings) -> Result<Tables, Error> {
    features::check()?;
    if settings.prove_tcp {
        proofs::check(settings)?;
    }
    signals::check()?;
    let mut object = loader::load(settings, Some(&|name| pins.join(name)))?;
    signals::check()?;
    let mut tables = Tables::of(&mut object, settings)?;
    tables.seal(&Listing::read(pins)?)?;
    loader::pin(&mut object, settings, pins, &|name| pins.join(name))?;
    signals::check()?;
    Ok(tables)
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
