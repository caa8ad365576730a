//! The running instance: everything pinned in one folder, under a lock.

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use aya::programs::Xdp;
use aya_obj::programs::XdpAttachType;
use ratelimit_common::maps::names;
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::dataplane::{
    Error,
    attach::attachment::Attachments,
    error::{Tried as _, at},
    instance::{
        daemon_lock,
        swap::{migration, staging},
    },
    pins::bpffs,
    program::loader::{self, Settings, Wanted},
    rules::batch_marker,
    tables::open::Tables,
};

/// Where the pins are unless told otherwise.
pub const PINS: &str = "/sys/fs/bpf/ratelimit";

/// File of the pinned program.
pub(crate) const PROGRAM: &str = "program";

/// Folder of the pinned links.
pub(crate) const LINKS: &str = "links";

/// The maps and links that every command reopens. Dropping it gives up the lock and changes nothing else.
pub struct Instance {
    pub(crate) pins: PathBuf,
    /// Rules, buckets and counters.
    pub tables: Tables,
    /// The interfaces.
    pub attachments: Attachments,
    _lock: OwnedFd,
}

impl Instance {
    /// Opens the instance in `pins`, waiting for other commands to finish.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`] where there is none, [`Error::OtherAbi`] where another build made it.
    pub fn open(pins: &Path) -> Result<Self, Error> {
        let lock = lock(pins)?.filter(|_| !is_empty(pins)).ok_or(Error::NotAttached)?;
        Self::locked(pins, lock, false)
    }

    /// Brings what another build has made in `pins` to this one's layouts. Says whether there was any such thing.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTypes`] where this process may not read what the other build's maps look like; whatever else stands in the way.
    pub fn take_over(pins: &Path) -> Result<bool, Error> {
        // One that was never finished is for `attach` to remove.
        let Some(lock) = lock(pins)?.filter(|_| is_complete(pins)) else { return Ok(false) };
        let is_other = matches!(Tables::open(pins), Err(Error::OtherAbi { .. }));
        Self::locked(pins, lock, true).map(|_| is_other)
    }

    /// With `migrates`, one that another build has made is brought to this one's layouts.
    fn locked(pins: &Path, lock: OwnedFd, migrates: bool) -> Result<Self, Error> {
        if !is_complete(pins) {
            return Err(Error::Interrupted);
        }
        let attachments = Attachments::in_folder(&pins.join(LINKS));
        staging::recover(pins, &attachments)?;
        let mut tables = match Tables::open(pins) {
            Err(Error::OtherAbi { .. }) if migrates => {
                migration::migrate(pins, &attachments)?;
                Tables::open(pins)?
            }
            outcome => outcome?,
        };
        batch_marker::recover(pins, &mut tables)?;
        let mut instance = Self { pins: pins.to_owned(), tables, attachments, _lock: lock };
        instance.finish_moving();
        Ok(instance)
    }

    /// Opens the instance in `pins`, or makes one without rules. Says whether it is new.
    ///
    /// # Errors
    ///
    /// [`Error::NoBpffs`] where pins cannot be kept. What was made is removed again on any failure.
    pub fn open_or_create(pins: &Path, wanted: &Wanted) -> Result<(Self, bool), Error> {
        bpffs::ensure(pins)?;
        let lock = loop {
            match lock(pins)? {
                Some(lock) => break lock,
                None => create_folder(pins)?,
            }
        };
        if is_complete(pins) {
            return Ok((Self::locked(pins, lock, true)?, false));
        }
        // What an attach that was killed has left: it had no program yet, so nothing was attached. A program that went missing
        // otherwise may still run, and must not lose its rules.
        if !is_empty(&pins.join(LINKS)) {
            return Err(Error::Interrupted);
        }
        remove_entries(pins)?;
        let settings = wanted.or(Settings::default());
        let create = || {
            let mut object = loader::load(&settings, Some(&|name| pins.join(name)))?;
            let tables = Tables::of(&mut object, &settings)?;
            loader::program(&mut object, &settings)?.pin(pins.join(PROGRAM)).tried("cannot pin the program")?;
            Ok(tables)
        };
        match create() {
            Ok(tables) => {
                let attachments = Attachments::in_folder(&pins.join(LINKS));
                Ok((Self { pins: pins.to_owned(), tables, attachments, _lock: lock }, true))
            }
            Err(error) => {
                // The failure itself is what the operator must hear of, not that of tidying up.
                let _ = remove_pins(pins);
                Err(error)
            }
        }
    }

    /// Its folder.
    #[must_use]
    pub fn pins(&self) -> &Path {
        &self.pins
    }

    /// The pinned program.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where it cannot be opened.
    pub fn program(&self) -> Result<Xdp, Error> {
        Xdp::from_pin(self.pins.join(PROGRAM), XdpAttachType::Interface).tried("cannot open the pinned program")
    }

    /// Detaches from every interface, and removes the instance with all its rules.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] or [`Error::Path`] where a link or pin cannot be removed.
    pub fn remove(self) -> Result<(), Error> {
        self.attachments.detach_all()?;
        remove_pins(&self.pins)
    }
}

/// Detaches from every interface and removes all pins in `pins`, whichever build made them. Returns the interfaces.
///
/// # Errors
///
/// [`Error::NotAttached`] where there are none, [`Error::Path`] where one cannot be removed.
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

/// Other folders beside `pins` that hold an instance.
#[must_use]
pub fn others(pins: &Path) -> Vec<PathBuf> {
    let beside = pins.parent().and_then(|parent| fs::read_dir(parent).ok()).into_iter().flatten().flatten();
    let is_instance = |path: &PathBuf| path != pins && path.join(names::CONTROL).exists() && is_complete(path);
    let mut others: Vec<PathBuf> = beside.map(|entry| entry.path()).filter(is_instance).collect();
    others.sort();
    others
}

/// Whether another command has the lock of the instance in `pins` just now.
#[must_use]
pub fn is_locked(pins: &Path) -> bool {
    let folder = rustix::fs::open(pins, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let lock = folder.and_then(|folder| rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive));
    lock == Err(rustix::io::Errno::WOULDBLOCK)
}

/// Locks the folder of the pins. None where there is no folder.
fn lock(pins: &Path) -> Result<Option<OwnedFd>, Error> {
    loop {
        if pins.is_dir() && !bpffs::is_at(pins) {
            return Err(bpffs::missing(pins));
        }
        let folder = match rustix::fs::open(pins, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(folder) => folder,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::ACCESS) => return Err(Error::NotOwner(pins.to_owned())),
            Err(error) => return Err(at(pins)(error.into())),
        };
        rustix::fs::flock(&folder, FlockOperation::LockExclusive).map_err(|error| at(pins)(error.into()))?;
        let locked = rustix::fs::fstat(&folder).map_err(|error| at(pins)(error.into()))?;
        // While we waited, whoever had the lock may have removed the folder, and another command made it anew.
        match fs::metadata(pins) {
            Ok(current) if current.ino() == locked.st_ino => return Ok(Some(folder)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(pins)(error)),
        }
    }
}

/// Another command may be first, which is as good.
fn create_folder(pins: &Path) -> Result<(), Error> {
    match fs::DirBuilder::new().mode(0o700).create(pins) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(pins)(error)),
        _ => Ok(()),
    }
}

/// Whether an instance is all there: the program is pinned last.
pub(crate) fn is_complete(pins: &Path) -> bool {
    pins.join(PROGRAM).exists()
}

/// Whether nothing is pinned in a folder: there is none, or a command has just made it.
pub(crate) fn is_empty(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Removes what an instance pins, and its folder.
fn remove_pins(pins: &Path) -> Result<(), Error> {
    remove_entries(pins)?;
    remove_if_there(pins, |path| fs::remove_dir(path))
}

fn remove_entries(pins: &Path) -> Result<(), Error> {
    staging::remove(pins)?;
    batch_marker::remove(pins)?;
    let moved = names::MOVED.into_iter().map(|(_, old)| old);
    for name in names::PINNED.into_iter().chain(moved).chain([PROGRAM]) {
        remove_if_there(&pins.join(name), |path| fs::remove_file(path))?;
    }
    remove_if_there(&pins.join(daemon_lock::FOLDER), |path| fs::remove_dir(path))?;
    remove_if_there(&pins.join(LINKS), |path| fs::remove_dir(path))
}

pub(crate) fn remove_if_there(path: &Path, remove: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Error> {
    match remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}
