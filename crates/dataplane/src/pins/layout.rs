//! Names of the files and folders among the pins of an instance.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use ratelimit_common::maps::renamed::RENAMED_MAPS;

use crate::{
    Error,
    error::{self, at},
};

/// Folder of the pins if the operator names no other.
pub const PINS: &str = error::PINS;

/// File of the pinned program.
pub const PROGRAM: &str = "program";

/// File of the pinned program for interfaces without Ethernet headers. It exists only while one is attached.
pub const PROGRAM_RAW: &str = "program_raw";

/// Files of the pinned programs for interfaces in shadow. They exist only while an interface is in shadow alone.
pub const PROGRAM_SHADOW: &str = "program_shadow";
pub const PROGRAM_RAW_SHADOW: &str = "program_raw_shadow";

/// Files of the pinned programs, the one that makes an instance complete last.
pub const PROGRAMS: [&str; 4] = [PROGRAM_RAW_SHADOW, PROGRAM_SHADOW, PROGRAM_RAW, PROGRAM];

/// Folder of the pinned links.
pub const LINKS: &str = "links";

/// Folder that a daemon locks.
pub const DAEMON: &str = "daemon";

/// Folder that marks an unfinished change of rules.
pub const CHANGING: &str = "changing";

/// Folder that marks an instance that can have rules for applications.
pub const APPLICATIONS: &str = "applications";

/// Folder of the pins that are about to replace others.
pub const NEXT: &str = "next";

/// Returns the name that other versions give a map.
pub fn other_name(name: &str) -> Option<&'static str> {
    let other = |(old, new): &(&'static str, &'static str)| match name {
        name if name == *old => Some(*new),
        name if name == *new => Some(*old),
        _ => None,
    };
    RENAMED_MAPS.iter().find_map(other)
}

/// Returns the path of a pinned map, also if another version has pinned it under its own name.
pub fn map_path(pins: &Path, name: &str) -> Option<PathBuf> {
    let names = [Some(name), other_name(name)];
    names.into_iter().flatten().map(|name| pins.join(name)).find(|path| path.exists())
}

/// Returns whether an instance is complete. Its program is pinned last.
pub fn is_complete(pins: &Path) -> bool {
    pins.join(PROGRAM).exists()
}

/// Returns whether a folder has no entry, or does not exist.
pub fn is_empty(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns what is in a folder. Nothing if it does not exist.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(at(folder)(error)),
        Ok(entries) => entries.map(|entry| Ok(entry.map_err(at(folder))?.path())).collect(),
    }
}

/// Creates a folder that other users cannot open, unless it exists.
pub fn create_folder(path: &Path) -> Result<(), Error> {
    create_new_folder(path).map(drop)
}

/// Does so, and returns whether it is new.
pub fn create_new_folder(path: &Path) -> Result<bool, Error> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(at(path)(error)),
        Ok(()) => Ok(true),
    }
}

/// Removes a file if it exists.
pub fn remove_file(path: &Path) -> Result<(), Error> {
    remove(path, fs::remove_file(path))
}

/// Removes an empty folder if it exists.
pub fn remove_folder(path: &Path) -> Result<(), Error> {
    remove(path, fs::remove_dir(path))
}

fn remove(path: &Path, outcome: io::Result<()>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}
