//! The programs of an instance: one for Ethernet, and one for packets that begin with the IP header.

use std::path::Path;

use aya::programs::Xdp;
use aya_obj::programs::XdpAttachType;

use crate::dataplane::{
    Error,
    error::Tried as _,
    pins::{
        layout::{PROGRAM, PROGRAM_RAW},
        ownership,
    },
    sys::link_type::FirstHeader,
};

/// Programs with the same settings and maps.
pub struct Programs {
    ethernet: Xdp,
    /// There is one only while an interface needs it.
    raw: Option<Xdp>,
}

impl Programs {
    /// Opens the programs that are pinned in a folder.
    pub(crate) fn from_pins(folder: &Path) -> Result<Self, Error> {
        let raw = folder.join(PROGRAM_RAW);
        Ok(Self { ethernet: open(&folder.join(PROGRAM))?, raw: raw.exists().then(|| open(&raw)).transpose()? })
    }

    /// Opens the programs that are pinned in a folder. The one that has left it already is in the other folder.
    pub(crate) fn from_pins_or(folder: &Path, other: &Path) -> Result<Self, Error> {
        let programs = Self::from_pins(folder)?;
        let raw = other.join(PROGRAM_RAW);
        match programs.raw {
            None if raw.exists() => Ok(Self { raw: Some(open(&raw)?), ..programs }),
            _ => Ok(programs),
        }
    }

    /// Pins the programs in a folder, the one for Ethernet last.
    pub(crate) fn pin(&mut self, folder: &Path) -> Result<(), Error> {
        if let Some(raw) = &mut self.raw {
            raw.pin(folder.join(PROGRAM_RAW)).tried("cannot pin the program")?;
        }
        self.ethernet.pin(folder.join(PROGRAM)).tried("cannot pin the program")
    }

    /// Returns the program for Ethernet.
    #[must_use]
    pub fn ethernet(&self) -> &Xdp {
        &self.ethernet
    }

    /// Returns the program for packets that begin with this header.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if its pin was removed.
    pub fn of(&self, first: FirstHeader) -> Result<&Xdp, Error> {
        match first {
            FirstHeader::Ethernet => Ok(&self.ethernet),
            FirstHeader::Ip => self.raw.as_ref().ok_or(Error::Interrupted),
        }
    }

    /// Returns the same, but the program for Ethernet if there is no other: versions before the second program attached
    /// it everywhere.
    pub(crate) fn of_any_version(&self, first: FirstHeader) -> &Xdp {
        match (first, &self.raw) {
            (FirstHeader::Ip, Some(raw)) => raw,
            _ => &self.ethernet,
        }
    }

    /// Returns the ids of both.
    pub(crate) fn ids(&self) -> Result<Vec<u32>, Error> {
        let ethernet = self.ethernet.info().tried("cannot read the program")?.id();
        Ok(self.raw_id()?.into_iter().chain([ethernet]).collect())
    }

    /// Returns the id of the program for packets that begin with the IP header.
    pub(crate) fn raw_id(&self) -> Result<Option<u32>, Error> {
        self.raw.as_ref().map(|raw| Ok(raw.info().tried("cannot read the program")?.id())).transpose()
    }
}

fn open(pin: &Path) -> Result<Xdp, Error> {
    ownership::check_file(pin)?;
    Xdp::from_pin(pin, XdpAttachType::Interface).tried("cannot open the pinned program")
}
