//! Removes an instance, whichever version has created it. Pins of others stay.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ratelimit_common::maps::names;

use crate::{
    Error,
    attach::{attachment::Attachments, covered, foreign_program, unlinked},
    error::{PinsError, at},
    instance::{lock::lock, swap::staging},
    pins::{
        bpffs,
        layout::{self, LINKS, NEXT, PROGRAMS},
        listing::Listing,
        ours::Ours,
    },
    rules::change_mark,
};

/// What was removed.
#[derive(Debug, Default)]
pub struct Removed {
    /// The interfaces.
    pub interfaces: Vec<String>,
    /// Pins in the folder that are not ratelimit's. They stay.
    pub left: Vec<PathBuf>,
    /// Whether a pin was removed.
    pub had_pins: bool,
}

/// Detaches from every interface and removes all pins in `pins`, also of another version.
///
/// # Errors
///
/// [`Error::NotAttached`] if there is no instance, [`Error::NotRemoved`] if a pin cannot be removed.
pub fn remove_all(pins: &Path) -> Result<Removed, Error> {
    let _lock = lock(pins)?.ok_or_else(|| covered::not_attached(pins))?;
    if !bpffs::can_pin(pins) {
        return Err(PinsError::Folder(pins.to_owned()).into());
    }
    let found = files(pins)?.len();
    let attachments = Attachments::in_folder(&pins.join(LINKS));
    foreign_program::recover(pins, &Listing::read(pins)?)?;
    // This lists the interfaces again, so it comes before the links go: a failure must not leave a part of the instance.
    let linked: Vec<_> = attachments.list()?.into_iter().filter(|link| link.mode.is_some()).collect();
    let is_linked = |index| linked.iter().any(|link| link.index == Some(index));
    let mut interfaces = unlinked::remove(pins, |interface| !is_linked(interface.index))?;
    interfaces.extend(attachments.detach_all()?);
    interfaces.sort();
    interfaces.dedup();
    remove_pins(pins).map_err(|cause| Error::NotRemoved { cause: Box::new(cause) })?;
    let left = files(pins)?;
    let had_pins = left.len() < found;
    Ok(Removed { interfaces, left, had_pins })
}

/// Returns the files in a folder, and in folders in it.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    each_file(folder, &mut |file| {
        files.push(file.to_owned());
        Ok(())
    })?;
    files.sort();
    Ok(files)
}

/// Removes all pins of an instance, and their folder unless something else is in it.
pub(super) fn remove_pins(pins: &Path) -> Result<(), Error> {
    remove_entries(pins)?;
    remove_if_empty(pins)
}

/// Removes all pins of an instance.
pub(super) fn remove_entries(pins: &Path) -> Result<(), Error> {
    let (ours, mut others) = (Ours::of(pins)?, Vec::new());
    each_file(pins, &mut |file| {
        if !is_known(pins, file) && ours.has(file) {
            others.push(file.to_owned());
        }
        Ok(())
    })?;
    // The programs name what is ours, so they are removed after it.
    others.iter().try_for_each(|file| layout::remove_file(file))?;
    staging::remove(pins)?;
    change_mark::remove(pins)?;
    known_files().try_for_each(|name| layout::remove_file(&pins.join(name)))?;
    // Folders of other versions too, if nothing of others is in them.
    layout::entries(pins)?.into_iter().filter(|entry| is_folder(entry)).try_for_each(|folder| remove_if_empty(&folder))
}

/// Returns the names of all files that this version or an earlier one pins in the folder itself, the program last.
fn known_files() -> impl Iterator<Item = &'static str> {
    let moved = names::MOVED.into_iter().map(|(_, old)| old);
    let maps = names::PINNED.into_iter().chain(moved).flat_map(|name| [Some(name), layout::other_name(name)]);
    maps.flatten().chain(PROGRAMS)
}

/// Returns whether another step removes a file.
fn is_known(pins: &Path, file: &Path) -> bool {
    let folder = file.parent();
    folder == Some(&pins.join(NEXT)) || folder == Some(pins) && known_files().any(|name| file == pins.join(name))
}

/// Calls `visit` with each file in a folder, and in folders in it.
fn each_file(folder: &Path, visit: &mut dyn FnMut(&Path) -> Result<(), Error>) -> Result<(), Error> {
    for entry in layout::entries(folder)? {
        if is_folder(&entry) { each_file(&entry, visit)? } else { visit(&entry)? }
    }
    Ok(())
}

/// Returns whether a path is a folder, and not a link to one.
fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn remove_if_empty(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(at(folder)),
    }
}
