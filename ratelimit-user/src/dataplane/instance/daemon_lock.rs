//! That one daemon at most keeps a file in force. The claim is a locked folder among the pins: also those see it who share nothing else, such as
//! containers with a /run of their own.

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, fstat},
    io::Errno,
};

use crate::dataplane::{Error, Instance, error::at, instance::open::PROGRAM};

/// The folder.
pub(crate) const FOLDER: &str = "daemon";

/// A claim on an instance. Given up when it is dropped, or its process ends.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    folder: OwnedFd,
}

impl Instance {
    /// Makes sure that this process has the claim: it takes it where `claim` is none, or the instance has been made anew since.
    ///
    /// # Errors
    ///
    /// [`Error::SecondDaemon`] where another process has it.
    pub fn claim(&self, claim: &mut Option<Claim>) -> Result<(), Error> {
        if !claim.as_ref().is_some_and(|claim| is_at(&claim.folder, &claim.path)) {
            *claim = Some(Claim::take(&self.pins)?);
        }
        Ok(())
    }
}

impl Claim {
    /// Takes the claim of an instance that there is already, to be made sure of by [`Instance::claim`] under its lock.
    ///
    /// # Errors
    ///
    /// [`Error::SecondDaemon`] where another process has it.
    pub fn take_early(pins: &Path, claim: &mut Option<Self>) -> Result<(), Error> {
        if claim.is_none() && pins.join(PROGRAM).exists() {
            *claim = Some(Self::take(pins)?);
        }
        Ok(())
    }

    fn take(pins: &Path) -> Result<Self, Error> {
        let path = pins.join(FOLDER);
        loop {
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(at(path)(error)),
                _ => {}
            }
            let folder = match rustix::fs::open(&path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
                // Whoever had it has just ended.
                Err(Errno::NOENT) => continue,
                opened => opened.map_err(|error| at(&path)(error.into()))?,
            };
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Err(Error::SecondDaemon(pins.to_owned())),
                locked => locked.map_err(|error| at(&path)(error.into()))?,
            }
            if is_at(&folder, &path) {
                return Ok(Self { path, folder });
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // While it is locked, so that it is nobody else's.
        if is_at(&self.folder, &self.path) {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Whether a folder is still the one with that path.
fn is_at(folder: &OwnedFd, path: &Path) -> bool {
    fstat(folder).is_ok_and(|opened| fs::metadata(path).is_ok_and(|named| named.ino() == opened.st_ino))
}
