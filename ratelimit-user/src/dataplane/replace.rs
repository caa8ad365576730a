//! Puts another program in the place of the running one, with maps of other sizes where it needs them.

use std::fs;

use aya::maps::{IterableMap as _, MapData, MapInfo};
use ratelimit_common::{
    control::{Control, FEATURE_SHADOW},
    map,
};

use super::{
    Error, Instance,
    error::Tried as _,
    fresh,
    instance::{PROGRAM, remove_if_there},
    moving,
    object::{self, Settings},
    stage::Stage,
    tables::Tables,
};

impl Instance {
    /// Puts a program with these settings in the place of the running one, on every interface or on none.
    pub(super) fn replace_program(&mut self, settings: &Settings) -> Result<(), Error> {
        moving::finish(&self.pins, &mut self.tables)?;
        if self.replace_once(settings)? {
            // Should this fail, the program looks in two places until the next change, which is slower and nothing else.
            let _ = moving::finish(&self.pins, &mut self.tables).and_then(|()| self.replace_once(settings));
        }
        Ok(())
    }

    /// Says whether entries are to be moved still.
    fn replace_once(&mut self, settings: &Settings) -> Result<bool, Error> {
        let pins = self.pins.clone();
        let stage = Stage::begin(&pins)?;
        let mut settings = *settings;
        let before = self.tables.control()?;
        let outcome = self.prepare(&stage, &mut settings).and_then(|()| self.announce(&before, &settings));
        let outcome = match outcome {
            Ok(control) => stage.put_in_force(&self.attachments, || self.tables.set_control(&control)),
            Err(error) => {
                // The failure itself is what the operator must hear of, not that of tidying up.
                let _ = stage.abandon();
                Err(error)
            }
        };
        match outcome {
            Ok(()) => {}
            Err(error @ Error::Unfinished { .. }) => return Err(error),
            Err(error) => {
                let _ = self.tables.set_control(&before);
                return Err(error);
            }
        }
        self.tables = Tables::open(&pins)?;
        if !settings.moving {
            for (_, old) in map::MOVED {
                // One that stays does so until the next change, and nothing looks at it.
                let _ = remove_if_there(&pins.join(old), |path| fs::remove_file(path));
            }
        }
        Ok(settings.moving)
    }

    /// Writes what both programs can do with, and returns what the new one wants.
    fn announce(&mut self, before: &Control, settings: &Settings) -> Result<Control, Error> {
        let mut after = *before;
        fresh::apply(settings, &mut after);
        after.next_features = after.features;
        // Until it is done, nobody may count on what only one of the two looks at. That packets pass in spite of everything may be so
        // as soon as either does.
        let (from, to) = (before.features, after.features);
        self.tables.set_control(&Control { features: from & to | (from | to) & FEATURE_SHADOW, ..after })?;
        Ok(after)
    }

    /// Loads the program, with new maps in the place of those that have another size than these settings want.
    fn prepare(&self, stage: &Stage<'_>, settings: &mut Settings) -> Result<(), Error> {
        let mut resized = Vec::new();
        for (name, old) in map::MOVED {
            let (pin, wanted) = (self.pins.join(name), settings.entries(name));
            let entries = MapInfo::from_pin(&pin).tried(name)?.max_entries();
            if entries == wanted {
                continue;
            }
            resized.push(name);
            // Of one entry are those that nobody uses.
            if entries.min(wanted) > 1 {
                MapData::from_pin(&pin).tried(name)?.pin(stage.path(old)).tried("cannot pin a map")?;
                settings.moving = true;
                if name == map::FRONT {
                    settings.old_cells = entries;
                }
            }
        }
        let place = |name: &str| {
            let is_new = resized.contains(&name) || map::MOVED.iter().any(|(_, old)| *old == name);
            if is_new { stage.path(name) } else { self.pins.join(name) }
        };
        let mut object = object::load(settings, Some(&place))?;
        if settings.old_cells != 0 {
            let cells = MapData::from_pin(stage.path(map::FRONT)).tried(map::FRONT)?;
            moving::copy_cells(self.tables.front.map(), &cells, settings.strangers != 0)?;
        }
        object::program(&mut object, settings)?.pin(stage.path(PROGRAM)).tried("cannot pin the program")
    }
}
