//! Rules of callers in a file of this host.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use super::store::{StoreError, Write};
use crate::{
    config::requests::stored::{self, Contents},
    controller::state::file,
};

/// A file with rules. One server at a time has it.
#[derive(Debug)]
pub(super) struct FileStore {
    path: PathBuf,
    /// The system unlocks it when the server ends, however it ends.
    _lock: OwnedFd,
}

impl FileStore {
    /// Takes a file, which need not exist, for this server.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let lock = beside(path, "lock");
        let refused = |error: io::Error| {
            let advice = "does its folder exist, and may this user write there?";
            StoreError::Unusable(format!("rules: {}: {error}: {advice}", lock.display()))
        };
        // It is open for reading only, so that the disk can be made read-only meanwhile.
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open(&lock, flags, Mode::RUSR | Mode::WUSR).map_err(|error| refused(error.into()))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => {
                StoreError::Unusable(format!("rules: another server has {}: choose another path", path.display()))
            }
            other => refused(other.into()),
        })?;
        Ok(Self { path: path.to_owned(), _lock: file })
    }
}

impl FileStore {
    /// Reads all rules with their versions.
    pub(super) fn read(&self) -> Result<Contents, StoreError> {
        let wrong = |problem: &str| StoreError::Unusable(format!("{}{problem}", self.path.display()));
        match file::read(&self.path).map_err(|error| wrong(&format!(": {error}")))? {
            Some(text) => stored::parse(&text).map_err(|problem| wrong(&format!(":{problem}"))),
            None => Ok(Contents::default()),
        }
    }

    /// Makes one change. After a failure, nothing is changed.
    pub(super) fn write(&self, write: Write<'_>) -> Result<(), StoreError> {
        let before = self.read()?;
        // These rules are not those of a fleet any more.
        let after = Contents { fleet: None, ..write.applied_to(&before)? };
        self.replace(&after).map_err(|error| {
            // The new file may have its name already, although the folder does not keep it.
            if self.read().is_ok_and(|now| now != before) {
                let _ = self.replace(&before);
            }
            StoreError::Unusable(format!("{}: {error}", self.path.display()))
        })
    }

    /// Replaces all rules.
    pub(super) fn replace(&self, contents: &Contents) -> io::Result<()> {
        replace(&self.path, contents)
    }

    /// Keeps rules in another file. Returns its path.
    pub(super) fn set_aside(&self, contents: &Contents) -> io::Result<PathBuf> {
        let path = beside(&self.path, "before");
        replace(&path, contents)?;
        Ok(path)
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn replace(path: &Path, contents: &Contents) -> io::Result<()> {
    file::replace(path, |out| out.write_all(stored::write(contents).as_bytes()))
}

/// Returns the path of a file beside another one.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{ending}"));
    path.with_file_name(name)
}
