//! Which pins belong to an instance, also those of a later version under names that this one does not know.
//!
//! This version knows the names of its pins and of those of earlier ones. Under another name, a map is ours if one of the
//! pinned programs holds it, and a program if it holds one of these maps. From this version on, a program holds all maps
//! of its instance.

use std::{collections::BTreeSet, path::Path};

use crate::{
    Error,
    pins::layout::{NEXT, PROGRAMS},
    sys::bpf::pinned_object::{self, PinnedObject},
};

/// What the pinned programs of an instance tell.
pub struct Ours {
    /// Their ids.
    programs: BTreeSet<u32>,
    /// The ids of all their maps.
    maps: BTreeSet<u32>,
}

impl Ours {
    /// Asks the pinned programs.
    pub fn of(pins: &Path) -> Result<Self, Error> {
        let mut ours = Self { programs: BTreeSet::new(), maps: BTreeSet::new() };
        for folder in [pins, &pins.join(NEXT)] {
            for program in PROGRAMS.map(|name| folder.join(name)).iter().filter(|path| path.exists()) {
                if let PinnedObject::Program { id, maps } = PinnedObject::at(program)? {
                    ours.programs.insert(id);
                    ours.maps.extend(maps);
                }
            }
        }
        Ok(ours)
    }

    /// Returns whether the program with this id is ours. For a program that is not pinned any more, this needs
    /// CAP_SYS_ADMIN. Without it, such a program is not.
    pub fn has_program(&self, id: u32) -> bool {
        self.programs.contains(&id) || self.has_map(&pinned_object::maps_of_program(id).unwrap_or_default())
    }

    /// Returns whether a pin is ours. What cannot be opened is not.
    pub fn has(&self, pin: &Path) -> bool {
        match PinnedObject::at(pin) {
            Ok(PinnedObject::Map(id)) => self.has_map(&[id]),
            Ok(PinnedObject::Program { maps, .. }) => self.has_map(&maps),
            Ok(PinnedObject::Link { .. } | PinnedObject::Other) | Err(_) => false,
        }
    }

    fn has_map(&self, maps: &[u32]) -> bool {
        maps.iter().any(|map| self.maps.contains(map))
    }
}
