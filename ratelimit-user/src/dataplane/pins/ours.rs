//! Which pins belong to an instance, also those of a later version under names that this one does not know.
//!
//! This version knows the names of its pins and of those of earlier ones. Under another name, a map is ours if one of the
//! pinned programs holds it, and a program if it holds one of these maps. From this version on, a program holds all maps
//! of its instance.

use std::{collections::BTreeSet, path::Path};

use crate::dataplane::{
    Error,
    pins::layout::{NEXT, PROGRAM, PROGRAM_RAW},
    sys::bpf::pinned_object::{self, PinnedObject},
};

/// The ids of all maps of an instance.
pub(crate) struct Ours(BTreeSet<u32>);

impl Ours {
    /// Asks the pinned programs.
    pub(crate) fn of(pins: &Path) -> Result<Self, Error> {
        let mut maps = BTreeSet::new();
        for folder in [pins, &pins.join(NEXT)] {
            for program in [PROGRAM, PROGRAM_RAW].map(|name| folder.join(name)).iter().filter(|path| path.exists()) {
                if let PinnedObject::Program(ids) = PinnedObject::at(program)? {
                    maps.extend(ids);
                }
            }
        }
        Ok(Self(maps))
    }

    /// Returns whether the program with this id is ours. Needs CAP_SYS_ADMIN; without it, none is.
    pub(crate) fn has_program(&self, id: u32) -> bool {
        let maps = pinned_object::maps_of_program(id).unwrap_or_default();
        maps.iter().any(|map| self.0.contains(map))
    }

    /// Returns whether a pin is ours. What cannot be opened is not.
    pub(crate) fn has(&self, pin: &Path) -> bool {
        match PinnedObject::at(pin) {
            Ok(PinnedObject::Map(id)) => self.0.contains(&id),
            Ok(PinnedObject::Program(maps)) => maps.iter().any(|id| self.0.contains(id)),
            Ok(PinnedObject::Link | PinnedObject::Other) | Err(_) => false,
        }
    }
}
