//! An instance as whoever only reads sees it: without its lock, so that no command waits for a reader, and no reader for a command.

use std::path::{Path, PathBuf};

use crate::dataplane::{
    Error,
    attach::attachment::{Attachment, Attachments},
    instance::open,
    tables::{
        memory::{self, MapMemory},
        open::Tables,
    },
};

/// The maps of an instance, for reading. What a command changes meanwhile may be seen half done, and is never changed back.
pub struct View {
    pins: PathBuf,
    tables: Tables,
}

impl View {
    /// Opens the instance in `pins`.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`] where there is none, [`Error::Interrupted`] where it is just being made, [`Error::OtherAbi`] where another build made it.
    pub fn open(pins: &Path) -> Result<Self, Error> {
        if open::is_empty(pins) {
            return Err(Error::NotAttached);
        }
        if !open::is_complete(pins) {
            return Err(Error::Interrupted);
        }
        Ok(Self { pins: pins.to_owned(), tables: Tables::open(pins)? })
    }

    /// The interfaces of the instance in `pins`, whichever build has made it: links look the same in all of them.
    ///
    /// # Errors
    ///
    /// Those of [`Attachments::list`].
    pub fn attachments_in(pins: &Path) -> Result<Vec<Attachment>, Error> {
        Attachments::in_folder(&pins.join(open::LINKS)).list()
    }

    /// Rules, buckets and counters.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The interfaces.
    ///
    /// # Errors
    ///
    /// Those of [`Attachments::list`].
    pub fn attachments(&self) -> Result<Vec<Attachment>, Error> {
        Self::attachments_in(&self.pins)
    }

    /// Every map's memory.
    ///
    /// # Errors
    ///
    /// Those of [`memory::of_maps`].
    pub fn memory(&self) -> Result<Vec<MapMemory>, Error> {
        memory::in_folder(&self.pins)
    }
}
