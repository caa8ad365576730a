//! The lock that lets at most one daemon apply a file. It is a locked folder among the pins, because daemons in two
//! containers share nothing else.

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, flock, fstat, stat, utimensat},
    io::Errno,
};

use crate::{
    Error,
    error::at,
    pins::{
        layout::{self, DAEMON},
        ownership,
    },
    sys::lock_holder::Holder,
};

/// The lock of an instance's daemon. Released when it is dropped, or its process ends.
#[derive(Debug)]
pub struct DaemonLock {
    path: PathBuf,
    folder: OwnedFd,
}

impl DaemonLock {
    /// Makes sure that this process has the lock. It takes the lock if `lock` is none, or if the instance has been
    /// created anew since.
    ///
    /// # Errors
    ///
    /// [`Error::SecondDaemon`] if another process has it.
    pub(super) fn ensure(pins: &Path, lock: &mut Option<Self>) -> Result<(), Error> {
        if !lock.as_ref().is_some_and(|lock| is_at(&lock.folder, &lock.path)) {
            *lock = Some(Self::take(pins)?);
        }
        Ok(())
    }

    /// Takes the lock of an existing instance before the lock of its pins. The caller makes sure of it again under that
    /// one.
    ///
    /// # Errors
    ///
    /// [`Error::SecondDaemon`] if another process has it. [`Error::Pins`] if another user could
    /// change the pins.
    pub fn take_early(pins: &Path, lock: &mut Option<Self>) -> Result<(), Error> {
        if lock.is_none() && layout::is_complete(pins) {
            *lock = Some(Self::take(pins)?);
        }
        Ok(())
    }

    fn take(pins: &Path) -> Result<Self, Error> {
        ownership::check(pins)?;
        let path = pins.join(DAEMON);
        loop {
            keep_time(pins, || layout::create_folder(&path))?;
            ownership::check_file(&path)?;
            let folder = match rustix::fs::open(&path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
                // The daemon that had it has just ended.
                Err(Errno::NOENT) => continue,
                opened => opened.map_err(|error| at(&path)(error.into()))?,
            };
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => {
                    let (path, holder) = (pins.to_owned(), Holder::of(&folder).to_string());
                    return Err(Error::SecondDaemon { path, holder });
                }
                locked => locked.map_err(|error| at(&path)(error.into()))?,
            }
            if is_at(&folder, &path) {
                return Ok(Self { path, folder });
            }
        }
    }
}

impl Drop for DaemonLock {
    fn drop(&mut self) {
        // Removed while it is locked, so that it belongs to no other daemon.
        if is_at(&self.folder, &self.path) {
            let pins = self.path.parent().unwrap_or(&self.path);
            keep_time(pins, || drop(fs::remove_dir(&self.path)));
        }
    }
}

/// Does something in the folder of the pins, which keeps its time. Commands that wait for the lock of the pins take another
/// time as a sign that the lock has changed hands.
fn keep_time<T>(pins: &Path, work: impl FnOnce() -> T) -> T {
    let before = stat(pins).ok();
    let outcome = work();
    if let Some(before) = before {
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let last_modification = Timespec { tv_sec: before.st_mtime, tv_nsec: before.st_mtime_nsec as _ };
        // A process that takes the lock of the pins meanwhile sets a time that is lost. Its own work shows progress too.
        let _ = utimensat(CWD, pins, &Timestamps { last_access, last_modification }, AtFlags::empty());
    }
    outcome
}

/// Returns whether a folder still has that path.
fn is_at(folder: &OwnedFd, path: &Path) -> bool {
    fstat(folder).is_ok_and(|opened| fs::metadata(path).is_ok_and(|named| named.ino() == opened.st_ino))
}
