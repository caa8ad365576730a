//! Pins that are about to take the place of others. They are made in a folder of their own, the program last; then it goes on every link, and they
//! are put in place one by one. Whoever finds it half done knows by the program whether to finish it or to remove it.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use aya::{
    maps::{Array, MapData},
    programs::Xdp,
};
use aya_obj::programs::XdpAttachType;
use ratelimit_common::maps::{control::Control, names};

use crate::dataplane::{
    Error,
    attach::attachment::Attachments,
    error::{Tried as _, at},
    instance::open::{PROGRAM, remove_if_there},
    sys::raw::RawMap,
};

/// The folder.
const NEXT: &str = "next";

/// File of the control entry to come in it.
const PLAN: &str = "plan";

/// What is about to take the place of the pins in a folder.
pub(crate) struct Stage<'a> {
    pins: &'a Path,
    folder: PathBuf,
}

impl<'a> Stage<'a> {
    fn of(pins: &'a Path) -> Self {
        Self { pins, folder: pins.join(NEXT) }
    }

    /// An empty one. What another has left is finished or removed first.
    pub(crate) fn begin(pins: &'a Path, attachments: &Attachments) -> Result<Self, Error> {
        recover(pins, attachments)?;
        let stage = Self::of(pins);
        fs::create_dir(&stage.folder).map_err(at(&stage.folder))?;
        Ok(stage)
    }

    /// Notes what the control entry is to say as soon as this is in force.
    pub(crate) fn plan(&self, control: Control) -> Result<(), Error> {
        let mut plan = Array::<MapData, Control>::create(1, 0).tried("cannot make a map")?;
        plan.set(0, control, 0).tried("cannot write a map")?;
        plan.pin(self.path(PLAN)).tried("cannot pin a map")
    }

    /// Where something is pinned in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Puts what is in it in force: on every link, or on none, and then nothing is left of it.
    ///
    /// # Errors
    ///
    /// [`Error::Unfinished`] where it is in force and not all is in place, or some link could not be given its old program back: whoever opens the
    /// instance next goes on. After any other, the old program is on every link.
    pub(crate) fn put_in_force(&self, attachments: &Attachments) -> Result<(), Error> {
        let open =
            |path: PathBuf| Xdp::from_pin(path, XdpAttachType::Interface).tried("cannot open the pinned program");
        let (mut next, mut running) = (open(self.path(PROGRAM))?, open(self.pins.join(PROGRAM))?);
        let outcome = attachments.replace(&mut next).and_then(|()| self.carry_out());
        let unfinished = |cause| Error::Unfinished { cause: Box::new(cause) };
        if let Err(error) = outcome {
            attachments.replace(&mut running).map_err(unfinished)?;
            self.abandon()?;
            return Err(error);
        }
        self.put_in_place().map_err(unfinished)
    }

    /// Writes the [planned](Self::plan) control entry. As bytes, since another version may have made all of it.
    fn carry_out(&self) -> Result<(), Error> {
        if !self.path(PLAN).exists() {
            return Ok(());
        }
        let (plan, control) = (RawMap::from_pin(&self.path(PLAN))?, RawMap::from_pin(&self.pins.join(names::CONTROL))?);
        let key = 0u32.to_ne_bytes();
        plan.get(&key)?.map_or(Ok(()), |entry| control.put(&key, &entry))
    }

    /// Gives the pins the names of those before: whatever there is, as other versions may have maps of their own. Without the program nobody would
    /// go on, so that is the last.
    fn put_in_place(&self) -> Result<(), Error> {
        let names = self.names()?;
        let places = names.iter().filter(|name| *name != PROGRAM && *name != PLAN).map(OsString::as_os_str);
        for name in places.chain([OsStr::new(PROGRAM)]) {
            let to = self.pins.join(name);
            fs::rename(self.folder.join(name), &to).map_err(at(&to))?;
        }
        self.abandon()
    }

    fn names(&self) -> Result<Vec<OsString>, Error> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(at(&self.folder))?,
        };
        entries.map(|entry| Ok(entry.map_err(at(&self.folder))?.file_name())).collect()
    }

    /// Removes it with all that is in it, the program first: without it nobody finishes the rest.
    pub(crate) fn abandon(&self) -> Result<(), Error> {
        remove_if_there(&self.path(PROGRAM), |path| fs::remove_file(path))?;
        for name in self.names()? {
            remove_if_there(&self.folder.join(name), |path| fs::remove_file(path))?;
        }
        remove_if_there(&self.folder, |path| fs::remove_dir(path))
    }
}

/// Finishes or removes what a command that was killed has left.
pub(crate) fn recover(pins: &Path, attachments: &Attachments) -> Result<(), Error> {
    let stage = Stage::of(pins);
    if stage.path(PROGRAM).exists() { stage.put_in_force(attachments) } else { stage.abandon() }
}

/// Removes one that nobody is to finish.
pub(crate) fn remove(pins: &Path) -> Result<(), Error> {
    Stage::of(pins).abandon()
}
