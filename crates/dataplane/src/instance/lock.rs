//! The lock of an instance: the locked folder of its pins. Commands that change an instance have it one after another.
//!
//! A command waits as long as the lock changes hands, or the thread that has it works. Each process that takes the lock
//! sets the time of the folder, so that others see this even if they cannot see the process. A daemon waits for at most ten
//! seconds.

use std::{
    os::fd::OwnedFd,
    path::Path,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use ratelimit_common::maps::names::CONTROL;
use rustix::{
    fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, flock, fstat, futimens},
    io::Errno,
};

use crate::{
    Error,
    error::{PinsError, at},
    pins::{bpffs, listing::Listing, ownership},
    sys::{
        lock_holder::Holder,
        lock_thread::{Marked, Work},
        signals::{self, Held},
    },
};

/// How long a command waits while nothing happens.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time after which a command says that it waits.
const SILENCE: Duration = Duration::from_secs(1);

/// The first and the longest time between two tries. Most commands end within milliseconds.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// Sets the time of the last change alone.
const NOW: Timestamps = Timestamps {
    last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
};

/// The time between two looks at the process that has the lock.
const LOOK: Duration = Duration::from_millis(250);

/// Tells the operator that this process waits.
static SAY: OnceLock<fn(&str)> = OnceLock::new();

/// The longest time that this process waits for a lock. Without one, it waits as long as others make progress.
static MOST: OnceLock<Duration> = OnceLock::new();

/// A locked folder of pins. Dropping it releases the lock. Until then, signals that would end the process wait.
pub(super) struct Lock {
    _folder: OwnedFd,
    _held: Held,
    _thread: Marked,
    /// The names in the folder when it was locked.
    pub(super) listing: Listing,
}

/// From now on, calls this if the process has waited for a lock for a second. The first function counts.
pub fn say_waits_with(say: fn(&str)) {
    let _ = SAY.set(say);
}

/// From now on, this process gives up after ten seconds, whatever the holder of a lock does. A daemon tries again later, and
/// must answer signals and commands meanwhile.
pub fn wait_at_most_ten_seconds() {
    let _ = MOST.set(PATIENCE);
}

/// Locks the folder of the pins, after a check that no other user can change what is in it. Returns none if there is no
/// folder.
///
/// # Errors
///
/// [`Error::Locked`] if another process has the lock and does nothing, or if this is a daemon that has waited for ten
/// seconds. [`Error::Signal`] if a signal came meanwhile. [`Error::Pins`] if another user could change the pins.
pub(super) fn lock(pins: &Path) -> Result<Option<Lock>, Error> {
    let system = |error: Errno| at(pins)(error.into());
    let held = Held::hold()?;
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
        // Others see that the lock has changed hands. A read-only file system does not show it.
        let _ = futimens(&folder, &NOW);
        let thread = Marked::new();
        ownership::check_file(&pins.join(CONTROL))?;
        let listing = Listing::of(&folder).map_err(at(pins))?;
        return Ok(Some(Lock { _folder: folder, _held: held, _thread: thread, listing }));
    }
}

/// Takes the lock of an open folder, or gives up. It tries again and again, because `flock` has no time limit.
fn wait_for(folder: &OwnedFd, pins: &Path) -> Result<(), Error> {
    let system = |error: Errno| at(pins)(error.into());
    let [mut pause, longest] = PAUSES;
    let mut wait = None;
    loop {
        match flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => wait.get_or_insert_with(|| Wait::since(Instant::now(), folder)).look(pins)?,
            outcome => return outcome.map_err(system),
        }
        thread::sleep(pause);
        signals::check()?;
        pause = longest.min(pause * 2);
    }
}

/// A wait for the lock of a folder.
struct Wait<'a> {
    folder: &'a OwnedFd,
    begin: Instant,
    is_said: bool,
    /// The last look, and what it found.
    looked: Instant,
    seen: Seen,
    /// When something has happened last.
    happened: Instant,
}

/// What changes while the lock changes hands, or while the process that has it works.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// The time of the folder.
    taken: Option<[i64; 2]>,
    work: Option<Work>,
}

impl Seen {
    fn at(folder: &OwnedFd) -> Self {
        let taken = fstat(folder).ok().map(|found| [found.st_mtime, found.st_mtime_nsec as i64]);
        Self { taken, work: Holder::id_of(folder).and_then(Work::of) }
    }

    /// Returns whether something has happened since an earlier look, or is about to.
    fn differs_from(&self, before: &Self) -> bool {
        self != before || self.work.as_ref().is_some_and(Work::is_runnable)
    }
}

impl<'a> Wait<'a> {
    fn since(begin: Instant, folder: &'a OwnedFd) -> Self {
        Self { folder, begin, is_said: false, looked: begin, seen: Seen::at(folder), happened: begin }
    }

    /// Looks whether something has happened, unless the last look was a moment ago.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if nothing has for too long, or if this process waits no longer.
    fn look(&mut self, pins: &Path) -> Result<(), Error> {
        let now = Instant::now();
        if now - self.looked < LOOK {
            return Ok(());
        }
        let seen = Seen::at(self.folder);
        if seen.differs_from(&self.seen) {
            self.happened = now;
        }
        (self.looked, self.seen) = (now, seen);
        let is_stuck = now - self.happened >= PATIENCE;
        if is_stuck || MOST.get().is_some_and(|most| now - self.begin >= *most) {
            let (path, holder) = (pins.to_owned(), Holder::of(self.folder).to_string());
            return Err(Error::Locked { path, seconds: PATIENCE.as_secs(), is_stuck, holder });
        }
        if !self.is_said && now - self.begin >= SILENCE {
            self.is_said = true;
            say_wait(self.folder, pins);
        }
        Ok(())
    }
}

fn say_wait(folder: &OwnedFd, pins: &Path) {
    if let Some(say) = SAY.get() {
        say(&format!("waits for {}, which is locked by {}", pins.display(), Holder::of(folder)));
    }
}

/// Says who has the lock of the instance in `pins`, for a process that waits for another one that needs it. Says nothing
/// if nobody has it.
pub fn say_holder(pins: &Path) {
    if let Ok(folder) = open(pins)
        && flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
    {
        say_wait(&folder, pins);
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
