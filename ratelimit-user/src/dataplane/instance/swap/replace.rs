//! Puts another program in the place of the running one, with maps of other sizes where it needs them.

use std::fs;

use aya::{
    Ebpf,
    maps::{MapData, MapInfo},
    programs::Xdp,
};
use ratelimit_common::maps::names;

use crate::dataplane::{
    Error, Instance,
    error::Tried as _,
    instance::{
        open::{PROGRAM, remove_if_there},
        swap::{resize, staging::Stage},
    },
    program::{
        control_init,
        loader::{self, Settings, Wanted},
    },
    tables::open::Tables,
};

/// A program that was running, with its settings.
pub struct Running {
    program: Xdp,
    settings: Settings,
}

impl Running {
    /// What asks for its settings.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        Wanted::of(&self.settings)
    }
}

impl Instance {
    /// The program that runs, to go back to it later.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn running(&self) -> Result<Running, Error> {
        Ok(Running { program: self.program()?, settings: self.settings()? })
    }

    /// Puts a program with these settings in the place of the running one, on every interface or on none.
    pub(crate) fn replace_program(&mut self, settings: &Settings) -> Result<(), Error> {
        resize::finish(&self.pins, &mut self.tables)?;
        if self.replace_once(settings)? {
            // Should this fail, the program looks in two places until the instance is opened next, which is slower and nothing else.
            let _ = resize::finish(&self.pins, &mut self.tables).and_then(|()| self.replace_once(settings));
        }
        Ok(())
    }

    /// Goes on where entries are still to be moved, since whoever did so was killed.
    pub(crate) fn finish_moving(&mut self) {
        if names::MOVED.iter().any(|(_, old)| self.pins.join(old).exists()) {
            let _ = self.settings().and_then(|settings| self.replace_program(&settings));
        }
    }

    /// Says whether entries are to be moved still.
    fn replace_once(&mut self, settings: &Settings) -> Result<bool, Error> {
        let pins = self.pins.clone();
        let stage = Stage::begin(&pins, &self.attachments)?;
        let mut settings = *settings;
        let mut object = match self.prepare(&stage, &mut settings) {
            Ok(object) => object,
            Err(error) => {
                let _ = stage.abandon();
                return Err(error);
            }
        };
        self.enforce(&stage, &settings, loader::program(&mut object, &settings)?)?;
        self.tables = Tables::open(&pins)?;
        if !settings.moving {
            for (_, old) in names::MOVED {
                // One that stays is tried again when the instance is opened next.
                let _ = remove_if_there(&pins.join(old), |path| fs::remove_file(path));
            }
        }
        Ok(settings.moving)
    }

    /// Puts a program that ran before in the place of the running one on every interface. Where it has not all that is asked for by now, this build's
    /// program with its settings takes its place.
    ///
    /// # Errors
    ///
    /// Those of [`Self::upgrade`]; the running program stays then.
    pub fn go_back(&mut self, mut to: Running) -> Result<(), Error> {
        if !self.can_run(&to)? {
            return self.upgrade(&Wanted::of(&to.settings));
        }
        let pins = self.pins.clone();
        let stage = Stage::begin(&pins, &self.attachments)?;
        self.enforce(&stage, &to.settings, &mut to.program)
    }

    /// Whether a program looks at all that rules ask for, and its maps are those in use.
    fn can_run(&self, Running { program, settings }: &Running) -> Result<bool, Error> {
        let maps = program.info().and_then(|info| info.map_ids()).tried("cannot read the program")?.unwrap_or_default();
        let mut can_run = self.needed()? & !settings.features() == 0;
        for (name, old) in names::MOVED {
            let id = MapInfo::from_pin(self.pins.join(name)).tried(name)?.id();
            can_run &= maps.contains(&id) && !self.pins.join(old).exists();
        }
        Ok(can_run)
    }

    /// Pins a program when all else is prepared, and puts it in force, or takes everything back.
    fn enforce(&self, stage: &Stage<'_>, settings: &Settings, program: &mut Xdp) -> Result<(), Error> {
        let mut pin = || {
            let mut control = self.tables.control()?;
            control_init::apply(settings, &mut control);
            stage.plan(control)?;
            program.pin(stage.path(PROGRAM)).tried("cannot pin the program")
        };
        if let Err(error) = pin() {
            // The failure itself is what the operator must hear of, not that of tidying up.
            let _ = stage.abandon();
            return Err(error);
        }
        stage.put_in_force(&self.attachments)
    }

    /// Loads the program, with new maps in the place of those that have another size than these settings want.
    fn prepare(&self, stage: &Stage<'_>, settings: &mut Settings) -> Result<Ebpf, Error> {
        let mut resized = Vec::new();
        for (name, old) in names::MOVED {
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
                if name == names::FRONT {
                    settings.old_cells = entries;
                }
            }
        }
        let place = |name: &str| {
            let is_new = resized.contains(&name) || names::MOVED.iter().any(|(_, old)| *old == name);
            if is_new { stage.path(name) } else { self.pins.join(name) }
        };
        let object = loader::load(settings, Some(&place))?;
        if settings.old_cells != 0 {
            let cells = MapData::from_pin(stage.path(names::FRONT)).tried(names::FRONT)?;
            resize::copy_cells(&self.tables, &cells, settings.unknown != 0)?;
        }
        Ok(object)
    }
}
