//! Pins that are about to replace others. They are created in a separate folder, the program last. Then the program
//! goes on every link. A mark commits the swap, and the pins are moved one by one.
//!
//! A command that finds the folder removes it if no link carries the program: its maps may be out of date. With the mark,
//! it moves the remaining pins, because every link carries the program by then. Otherwise it begins again with the links,
//! and goes back if one refuses.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use aya::maps::{Array, MapData};
use ratelimit_common::maps::{control::Control, names};

use crate::{
    Error,
    attach::{attachment::Attachments, carried},
    error::{Tried as _, at},
    pins::{
        layout::{self, NEXT, PROGRAM},
        ownership,
    },
    program::programs::Programs,
    sys::bpf::raw::RawMap,
};

/// File of the next control entry in the folder.
const PLAN: &str = "plan";

/// Folder in the folder that commits the swap.
const COMMITTED: &str = "committed";

/// Pins that are about to replace those in a folder.
pub struct Stage<'a> {
    pins: &'a Path,
    folder: PathBuf,
}

impl<'a> Stage<'a> {
    fn of(pins: &'a Path) -> Self {
        Self { pins, folder: pins.join(NEXT) }
    }

    /// Creates an empty one. An unfinished one is finished or removed first.
    pub fn begin(pins: &'a Path, attachments: &Attachments) -> Result<Self, Error> {
        recover(pins, attachments)?;
        let stage = Self::of(pins);
        layout::create_folder(&stage.folder)?;
        Ok(stage)
    }

    /// Saves the control entry that is written when this is in force.
    pub fn plan(&self, control: Control) -> Result<(), Error> {
        let mut plan = Array::<MapData, Control>::create(1, 0).tried("cannot make a map")?;
        plan.set(0, control, 0).tried("cannot write a map")?;
        plan.pin(self.path(PLAN)).tried("cannot pin a map")
    }

    /// Returns its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a pin in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Puts it in force on every link. After a failure, the old program is on every link and the folder is removed.
    ///
    /// # Errors
    ///
    /// [`Error::Unfinished`] if it is in force but not all pins are moved, or if a link did not get its old program
    /// back. The next command continues.
    pub fn put_in_force(&self, attachments: &Attachments) -> Result<(), Error> {
        let next = Programs::from_pins_or(&self.folder, self.pins)?;
        let running = Programs::from_pins(self.pins)?;
        let raw = [next.raw_ids()?, running.raw_ids()?].concat();
        let outcome =
            carried::put(attachments, &next, &raw).and_then(|()| layout::create_folder(&self.path(COMMITTED)));
        if let Err(error) = outcome {
            carried::put(attachments, &running, &raw).map_err(unfinished)?;
            self.abandon()?;
            return Err(error);
        }
        self.complete()
    }

    /// Does what comes after the mark.
    fn complete(&self) -> Result<(), Error> {
        self.carry_out().and_then(|()| self.put_in_place()).map_err(unfinished)
    }

    /// Writes the [planned](Self::plan) control entry. It handles bytes, because another version may have planned it.
    fn carry_out(&self) -> Result<(), Error> {
        if !self.path(PLAN).exists() {
            return Ok(());
        }
        let (plan, control) = (RawMap::from_pin(&self.path(PLAN))?, RawMap::from_pin(&self.pins.join(names::CONTROL))?);
        let key = 0u32.to_ne_bytes();
        plan.get(&key)?.map_or(Ok(()), |entry| control.put(&key, &entry))
    }

    /// Moves all pins, also those of other versions. The program is last, because without it no command would continue.
    fn put_in_place(&self) -> Result<(), Error> {
        let names = self.names()?;
        let stays = [PROGRAM, PLAN, COMMITTED];
        let places = names.iter().map(OsString::as_os_str).filter(|name| stays.iter().all(|stays| name != stays));
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

    /// Removes it with all pins in it. The program is first, so that no command finishes a half-removed swap.
    pub fn abandon(&self) -> Result<(), Error> {
        layout::remove_file(&self.path(PROGRAM))?;
        layout::remove_folder(&self.path(COMMITTED))?;
        for name in self.names()? {
            layout::remove_file(&self.folder.join(name))?;
        }
        layout::remove_folder(&self.folder)
    }
}

/// Says that a change is in force, and that the next command does the rest.
pub fn unfinished(cause: Error) -> Error {
    Error::Unfinished { cause: Box::new(cause) }
}

/// Finishes or removes what a killed command has left.
pub fn recover(pins: &Path, attachments: &Attachments) -> Result<(), Error> {
    let stage = Stage::of(pins);
    ownership::check_folder(&stage.folder)?;
    stage.names()?.iter().try_for_each(|name| ownership::check_file(&stage.folder.join(name)))?;
    if !stage.path(PROGRAM).exists() {
        stage.abandon()
    } else if stage.path(COMMITTED).exists() {
        stage.complete()
    } else if carried::carry(attachments, &Programs::from_pins(&stage.folder)?)? {
        stage.put_in_force(attachments)
    } else {
        stage.abandon()
    }
}

/// Removes an unfinished swap.
pub fn remove(pins: &Path) -> Result<(), Error> {
    Stage::of(pins).abandon()
}
