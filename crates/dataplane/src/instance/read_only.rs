//! Opens an instance for reading. It takes no lock, so commands and readers never wait for each other.

use std::path::{Path, PathBuf};

use ratelimit_common::maps::names::CONTROL;

use crate::{
    Error,
    attach::{
        attachment::{Attachment, Attachments},
        covered,
    },
    instance::segments,
    pins::{bpffs, layout, listing::Listing, ownership},
    program::programs::Programs,
    spared::renew,
    tables::{
        memory::{self, MapMemory},
        open::Tables,
    },
};

/// The maps of an instance for reading. They can show half of another command's change.
pub struct View {
    pins: PathBuf,
    tables: Tables,
}

impl View {
    /// Opens the instance in `pins`.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`] if there is none, [`Error::Interrupted`] while it is being created, [`Error::OtherAbi`]
    /// if another build created it. [`Error::Pins`] if another user could change the pins.
    pub fn open(pins: &Path) -> Result<Self, Error> {
        ownership::check(pins)?;
        if !layout::is_complete(pins) {
            if Listing::read(pins)?.has_instance() {
                return Err(Error::Interrupted);
            }
            return bpffs::check_visible(pins).and(Err(covered::not_attached(pins)));
        }
        ownership::check_file(&pins.join(CONTROL))?;
        Ok(Self { pins: pins.to_owned(), tables: Tables::unlocked(pins)? })
    }

    /// Returns the interfaces of the instance in `pins`, also of another build: links are the same in all builds.
    ///
    /// # Errors
    ///
    /// Those of [`Attachments::list`].
    pub fn attachments_in(pins: &Path) -> Result<Vec<Attachment>, Error> {
        Attachments::in_folder(&pins.join(layout::LINKS)).list()
    }

    /// Returns the ids of the programs for interfaces without Ethernet headers that the instance in `pins` has.
    #[must_use]
    pub fn raw_programs_in(pins: &Path) -> Vec<u32> {
        Programs::from_pins(pins).and_then(|programs| programs.raw_ids()).unwrap_or_default()
    }

    /// Returns rules, buckets and counters.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the interfaces.
    ///
    /// # Errors
    ///
    /// Those of [`Attachments::list`].
    pub fn attachments(&self) -> Result<Vec<Attachment>, Error> {
        Self::attachments_in(&self.pins)
    }

    /// Returns whether answers with SYN cookies offer something else than the routes accept by now.
    #[must_use]
    pub fn offers_other_segments(&self) -> bool {
        let attachments = Attachments::in_folder(&self.pins.join(layout::LINKS));
        self.tables.control().is_ok_and(|control| {
            segments::by_now(&control, &attachments).is_ok_and(|segments| segments != control.segments)
        })
    }

    /// Returns whether this host spares something else than is written by now.
    #[must_use]
    pub fn spares_others(&self) -> bool {
        renew::is_old(&self.tables, &Attachments::in_folder(&self.pins.join(layout::LINKS)))
    }

    /// Returns the memory of every map.
    ///
    /// # Errors
    ///
    /// Those of [`memory::of_maps`].
    pub fn memory(&self) -> Result<Vec<MapMemory>, Error> {
        memory::of_maps(&self.pins)
    }
}
