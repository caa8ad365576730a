//! The names in the folder of the pins, read at once.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    mem::MaybeUninit,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt as _, fs::DirEntryExt as _},
    },
    path::Path,
};

use ratelimit_common::maps::names;
use rustix::fs::RawDir;

use crate::{Error, error::at, pins::layout};

/// The names in a folder with the numbers of their files.
#[derive(Clone)]
pub struct Listing(BTreeMap<OsString, u64>);

impl Listing {
    /// Reads a folder. One that does not exist has no names.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self(BTreeMap::new())),
            entries => entries.map_err(at(folder))?,
        };
        let named = entries.map(|entry| entry.map(|entry| (entry.file_name(), entry.ino())).map_err(at(folder)));
        named.collect::<Result<_, _>>().map(Self)
    }

    /// Reads a folder that is open and was not read before.
    pub fn of(folder: &OwnedFd) -> io::Result<Self> {
        let mut space = [MaybeUninit::uninit(); 4_096];
        let (mut entries, mut names) = (RawDir::new(folder, &mut space), BTreeMap::new());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.insert(name.to_owned(), entry.ino());
            }
        }
        Ok(Self(names))
    }

    /// Returns whether there is a pin of an instance. Other pins can be in the folder too.
    pub fn has_instance(&self) -> bool {
        let of_maps = names::PINNED.into_iter().flat_map(|name| [Some(name), layout::other_name(name)]).flatten();
        of_maps.chain([layout::PROGRAM, layout::LINKS, layout::NEXT]).any(|name| self.has(name))
    }

    /// Returns whether there is this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(OsStr::new(name))
    }

    /// Returns all names that are text.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|name| name.to_str())
    }

    /// Returns a number that changes with the build, and when one of these files is replaced. Never 0. None if a file is
    /// missing.
    pub fn seal(&self, build: &str, names: &[&str]) -> Option<u32> {
        let mut hasher = DefaultHasher::new();
        build.hash(&mut hasher);
        for name in names {
            (name, self.0.get(OsStr::new(name))?).hash(&mut hasher);
        }
        Some((hasher.finish() as u32).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_changes_with_the_build_and_each_file_and_needs_all() {
        let listing = |numbers: [u64; 2]| Listing(["A", "B"].map(OsString::from).into_iter().zip(numbers).collect());
        let seal = listing([1, 2]).seal("build", &["A", "B"]);
        assert!(seal.is_some_and(|seal| seal != 0));
        assert_eq!(seal, listing([1, 2]).seal("build", &["A", "B"]));
        assert_ne!(seal, listing([1, 2]).seal("other", &["A", "B"]));
        assert_ne!(seal, listing([1, 3]).seal("build", &["A", "B"]));
        assert_ne!(seal, listing([2, 1]).seal("build", &["A", "B"]));
        assert_eq!(listing([1, 2]).seal("build", &["A", "B", "C"]), None);
    }
}
