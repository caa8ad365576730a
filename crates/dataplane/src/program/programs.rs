//! The programs of an instance: for Ethernet and for packets that begin with the IP header, and each of them also for
//! interfaces in shadow.

use std::path::Path;

use aya::programs::Xdp;
use aya_obj::programs::XdpAttachType;
use ratelimit_common::maps::control::{FEATURE_RAW_IP, FEATURE_SHADOW_PROGRAMS};

use crate::{
    Error,
    error::Tried as _,
    pins::{
        layout::{PROGRAM, PROGRAM_RAW, PROGRAM_RAW_SHADOW, PROGRAM_SHADOW},
        ownership,
    },
    sys::link_type::FirstHeader,
};

/// What distinguishes the programs of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The first header of its packets.
    pub first: FirstHeader,
    /// Whether its interfaces are in shadow, although others may not be.
    pub is_shadow: bool,
}

impl Kind {
    /// Those of the programs that exist only while an interface needs them.
    pub const OTHERS: [Self; 3] = [
        Self { first: FirstHeader::Ip, is_shadow: false },
        Self { first: FirstHeader::Ethernet, is_shadow: true },
        Self { first: FirstHeader::Ip, is_shadow: true },
    ];

    /// Returns the file of its pin.
    pub fn file(self) -> &'static str {
        match (self.first, self.is_shadow) {
            (FirstHeader::Ethernet, false) => PROGRAM,
            (FirstHeader::Ip, false) => PROGRAM_RAW,
            (FirstHeader::Ethernet, true) => PROGRAM_SHADOW,
            (FirstHeader::Ip, true) => PROGRAM_RAW_SHADOW,
        }
    }

    /// Returns whether instances with these features have it.
    pub fn is_in(self, features: u32) -> bool {
        let has = |feature| features & feature != 0;
        (self.first == FirstHeader::Ethernet || has(FEATURE_RAW_IP))
            && (!self.is_shadow || has(FEATURE_SHADOW_PROGRAMS))
    }
}

/// Programs with the same settings and maps.
pub struct Programs {
    ethernet: Xdp,
    /// Those that exist only while an interface needs them.
    others: Vec<(Kind, Xdp)>,
}

impl Programs {
    /// Opens the programs that are pinned in a folder.
    pub fn from_pins(folder: &Path) -> Result<Self, Error> {
        Ok(Self { ethernet: open(&folder.join(PROGRAM))?, others: others(folder, &Kind::OTHERS)? })
    }

    /// Opens the programs that are pinned in a folder. Those that have left it already are in the other folder.
    pub fn from_pins_or(folder: &Path, other: &Path) -> Result<Self, Error> {
        let mut programs = Self::from_pins(folder)?;
        let missing: Vec<Kind> = Kind::OTHERS.into_iter().filter(|kind| programs.find(*kind).is_none()).collect();
        programs.others.extend(others(other, &missing)?);
        Ok(programs)
    }

    /// Pins the programs in a folder, the one for Ethernet last.
    pub fn pin(&mut self, folder: &Path) -> Result<(), Error> {
        for (kind, program) in &mut self.others {
            program.pin(folder.join(kind.file())).tried("cannot pin the program")?;
        }
        self.ethernet.pin(folder.join(PROGRAM)).tried("cannot pin the program")
    }

    /// Returns the program for Ethernet.
    #[must_use]
    pub fn ethernet(&self) -> &Xdp {
        &self.ethernet
    }

    /// Returns the program of this kind.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if its pin was removed.
    pub fn of(&self, kind: Kind) -> Result<&Xdp, Error> {
        match kind {
            Kind { first: FirstHeader::Ethernet, is_shadow: false } => Ok(&self.ethernet),
            kind => self.find(kind).ok_or(Error::Interrupted),
        }
    }

    /// Returns the same, but another one if there is none: versions before attached fewer programs.
    pub fn of_any_version(&self, kind: Kind) -> &Xdp {
        self.find(kind).or_else(|| self.find(Kind { is_shadow: false, ..kind })).unwrap_or(&self.ethernet)
    }

    /// Returns the ids of all.
    pub fn ids(&self) -> Result<Vec<u32>, Error> {
        let others = self.others.iter().map(|(_, program)| id(program));
        others.chain([id(&self.ethernet)]).collect()
    }

    /// Returns the ids of the programs for packets that begin with the IP header.
    pub fn raw_ids(&self) -> Result<Vec<u32>, Error> {
        self.ids_of(|kind| kind.first == FirstHeader::Ip)
    }

    /// Returns the ids of the programs for interfaces in shadow.
    pub fn shadow_ids(&self) -> Result<Vec<u32>, Error> {
        self.ids_of(|kind| kind.is_shadow)
    }

    fn ids_of(&self, is_wanted: impl Fn(Kind) -> bool) -> Result<Vec<u32>, Error> {
        self.others.iter().filter(|(kind, _)| is_wanted(*kind)).map(|(_, program)| id(program)).collect()
    }

    fn find(&self, kind: Kind) -> Option<&Xdp> {
        self.others.iter().find(|(other, _)| *other == kind).map(|(_, program)| program)
    }
}

/// Opens those of these programs that are pinned in a folder.
fn others(folder: &Path, kinds: &[Kind]) -> Result<Vec<(Kind, Xdp)>, Error> {
    let pinned = kinds.iter().map(|kind| (*kind, folder.join(kind.file()))).filter(|(_, pin)| pin.exists());
    pinned.map(|(kind, pin)| Ok((kind, open(&pin)?))).collect()
}

fn open(pin: &Path) -> Result<Xdp, Error> {
    ownership::check_file(pin)?;
    Xdp::from_pin(pin, XdpAttachType::Interface).tried("cannot open the pinned program")
}

fn id(program: &Xdp) -> Result<u32, Error> {
    Ok(program.info().tried("cannot read the program")?.id())
}
