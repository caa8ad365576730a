//! The lock of an instance: the locked folder of its pins. Commands that change an instance have it one after another.

use std::{
    os::fd::OwnedFd,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ratelimit_common::maps::names::CONTROL;
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, fstat},
    io::Errno,
};

use crate::{
    Error,
    error::{PinsError, at},
    pins::{bpffs, listing::Listing, ownership},
    sys::lock_holder::Holder,
};

/// How long a command waits for another one.
const PATIENCE: Duration = Duration::from_secs(10);

/// The first and the longest time between two tries. Most commands end within milliseconds.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// A locked folder of pins. Dropping it releases the lock.
pub(super) struct Lock {
    _folder: OwnedFd,
    /// The names in the folder when it was locked.
    pub(super) listing: Listing,
}

/// Locks the folder of the pins, after a check that no other user can change what is in it. Returns none if there is no
/// folder.
///
/// # Errors
///
/// [`Error::Locked`] if another process has the lock for too long. [`Error::Pins`] if another
/// user could change the pins.
pub(super) fn lock(pins: &Path) -> Result<Option<Lock>, Error> {
    let system = |error: Errno| at(pins)(error.into());
    loop {
        let folder = match open(pins) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return bpffs::check_visible(pins).map(|()| None),
            Err(Errno::ACCESS) => {
                // With fs.protected_symlinks, not even root may follow a link that another user made in a sticky folder.
                ownership::check(pins)?;
                return Err(PinsError::NotOwner(pins.to_owned()).into());
            }
            Err(error) => return Err(system(error)),
        };
        if !bpffs::is_on(&folder) {
            return Err(bpffs::missing(pins));
        }
        // The folder was opened first. So another user cannot put one there after a check that found none.
        let checked = ownership::check(pins)?;
        wait_for(&folder, pins)?;
        let locked = fstat(&folder).map_err(system)?;
        // Meanwhile, the command that had the lock may have removed the folder, and another may have created it again.
        if locked.st_nlink == 0 || checked != Some(locked.st_ino) {
            continue;
        }
        ownership::check_file(&pins.join(CONTROL))?;
        let listing = Listing::of(&folder).map_err(at(pins))?;
        return Ok(Some(Lock { _folder: folder, listing }));
    }
}

/// Takes the lock of an open folder, or gives up. It tries again and again, because `flock` has no time limit.
fn wait_for(folder: &OwnedFd, pins: &Path) -> Result<(), Error> {
    let system = |error: Errno| at(pins)(error.into());
    let (begin, [mut pause, longest]) = (Instant::now(), PAUSES);
    loop {
        match flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begin.elapsed() < PATIENCE => thread::sleep(pause),
            Err(Errno::WOULDBLOCK) => {
                let (path, holder) = (pins.to_owned(), Holder::of(folder).to_string());
                return Err(Error::Locked { path, seconds: PATIENCE.as_secs(), holder });
            }
            outcome => return outcome.map_err(system),
        }
        pause = longest.min(pause * 2);
    }
}

/// Returns whether another command has the lock of the instance in `pins`.
#[must_use]
pub fn is_locked(pins: &Path) -> bool {
    let lock = open(pins).and_then(|folder| flock(&folder, FlockOperation::NonBlockingLockExclusive));
    lock == Err(Errno::WOULDBLOCK)
}

fn open(pins: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(pins, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}
