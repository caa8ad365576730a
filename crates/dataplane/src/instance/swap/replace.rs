//! Replaces the running program, with maps of other sizes where its settings need them.

use std::path::Path;

use aya::{
    Ebpf,
    maps::{MapData, MapInfo},
};
use ratelimit_common::maps::{control::FEATURE_OWN, names};

use crate::{
    Error,
    error::Tried as _,
    instance::swap::{pinned::Pinned, resize, staging::Stage},
    pins::layout,
    program::{
        control_init,
        loader::{self, RequestedSettings, Settings},
        programs::{Kind, Programs},
    },
    tables::open::Tables,
};

/// Programs that ran, with their settings.
pub struct Running {
    programs: Programs,
    settings: Settings,
    /// The build that has loaded them.
    build: u32,
}

impl Running {
    /// Returns their settings as a request.
    #[must_use]
    pub fn requested(&self) -> RequestedSettings {
        RequestedSettings::of(&self.settings)
    }
}

/// Returns the running programs, so that they can be restored.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn running(pinned: &Pinned) -> Result<Running, Error> {
    Ok(Running { programs: pinned.programs()?, settings: pinned.settings()?, build: pinned.tables.control()?.build })
}

/// Replaces the running program by one with these settings, on every interface or on none.
pub fn replace(pinned: &mut Pinned, settings: &Settings) -> Result<(), Error> {
    resize::finish(&pinned.pins, &mut pinned.tables)?;
    if replace_once(pinned, settings)? {
        // If this fails, the program uses both maps until the next command opens the instance. That is slower, but
        // correct.
        let _ = resize::finish(&pinned.pins, &mut pinned.tables).and_then(|()| replace_once(pinned, settings));
    }
    Ok(())
}

/// Continues a resize whose command was killed.
pub fn finish_resize(pinned: &mut Pinned) {
    let _ = pinned.settings().and_then(|settings| replace(pinned, &settings));
}

/// Returns whether entries are still to be moved.
fn replace_once(pinned: &mut Pinned, settings: &Settings) -> Result<bool, Error> {
    let pins = pinned.pins.clone();
    let stage = Stage::begin(&pins, &pinned.attachments)?;
    let mut settings = *settings;
    let mut object = match prepare(pinned, &stage, &mut settings) {
        Ok(object) => object,
        Err(error) => {
            let _ = stage.abandon();
            return Err(error);
        }
    };
    let place = |name: &str| [stage.path(name), pins.join(name)].into_iter().find(|path| path.exists());
    let place = |name: &str| place(name).unwrap_or_else(|| pins.join(name));
    enforce(pinned, &stage, &settings, loader::build(), |folder| loader::pin(&mut object, &settings, folder, &place))?;
    if !settings.moving {
        for (_, old) in names::MOVED {
            // If it stays, the next command that opens the instance tries again.
            let _ = layout::remove_file(&pins.join(old));
        }
    }
    Ok(settings.moving)
}

/// Restores programs that ran before. The caller has checked that it [can run](can_run).
pub fn restore(pinned: &mut Pinned, mut to: Running) -> Result<(), Error> {
    let pins = pinned.pins.clone();
    let stage = Stage::begin(&pins, &pinned.attachments)?;
    enforce(pinned, &stage, &to.settings, to.build, |folder| to.programs.pin(folder))
}

/// Returns whether programs have these features, and use the present maps.
pub fn can_run(pins: &Path, Running { programs, settings, .. }: &Running, needed: u32) -> Result<bool, Error> {
    let maps = programs
        .ethernet()
        .info()
        .and_then(|info| info.map_ids())
        .tried("cannot read the program")?
        .unwrap_or_default();
    let mut can_run = needed & !settings.features() == 0;
    for name in names::SIZED {
        can_run &= maps.contains(&MapInfo::from_pin(pins.join(name)).tried(name)?.id());
    }
    Ok(can_run && !names::MOVED.iter().any(|(_, old)| pins.join(old).exists()))
}

/// Pins programs when all else is prepared, and puts them in force. After a failure, the old ones are in force.
fn enforce(
    pinned: &mut Pinned,
    stage: &Stage<'_>,
    settings: &Settings,
    build: u32,
    pin: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let prepare = || {
        let mut control = pinned.tables.control()?;
        let had_own = control.features & FEATURE_OWN != 0;
        control_init::apply(settings, build, &mut control);
        if settings.own != 0 && !had_own {
            // A refusal that was cached without own connections would refuse their packets too.
            control = control.with_same_lists().renewed();
        }
        stage.plan(control)?;
        pin(stage.folder())
    };
    if let Err(error) = prepare() {
        // The operator must see the failure itself, not one of tidying up.
        let _ = stage.abandon();
        return Err(error);
    }
    let outcome = stage.put_in_force(&pinned.attachments);
    // The control entry may have been written, and maps replaced, also after a failure.
    let tables = Tables::open(&pinned.pins);
    match (outcome, tables) {
        (outcome, Ok(tables)) => {
            pinned.tables = tables;
            // If this fails, the next command that opens the instance tries again.
            let _ = forget_unused(pinned);
            outcome
        }
        (outcome, Err(error)) => {
            pinned.tables.forget();
            outcome.and(Err(error))
        }
    }
}

/// Removes the pins of programs that no interface needs.
pub fn forget_unused(pinned: &Pinned) -> Result<(), Error> {
    let features = pinned.tables.control()?.features;
    let unused = Kind::OTHERS.into_iter().filter(|kind| !kind.is_in(features));
    unused.into_iter().try_for_each(|kind| layout::remove_file(&pinned.pins.join(kind.file())))
}

/// Loads the programs. Maps whose sizes differ from the settings are created anew.
fn prepare(pinned: &Pinned, stage: &Stage<'_>, settings: &mut Settings) -> Result<Ebpf, Error> {
    let pins = &pinned.pins;
    let mut resized = Vec::new();
    for name in names::SIZED {
        let (pin, requested) = (pins.join(name), settings.entries(name));
        let entries = MapInfo::from_pin(&pin).tried(name)?.max_entries();
        if entries == requested {
            continue;
        }
        resized.push(name);
        // A map of one entry is unused.
        let predecessor = names::MOVED.iter().find(|(moved, _)| *moved == name).map(|(_, old)| old);
        if let Some(old) = predecessor.filter(|_| entries.min(requested) > 1) {
            MapData::from_pin(&pin).tried(name)?.pin(stage.path(old)).tried("cannot pin a map")?;
            settings.moving = true;
            if name == names::FRONT {
                settings.old_cells = entries;
            }
        }
    }
    if resized.contains(&names::FRONT) || resized.contains(&names::BUCKETS) {
        // New cells do not know the buckets, and epochs depend on their number.
        resized.push(names::CREATED);
    }
    let place = |name: &str| {
        let is_new = resized.contains(&name) || names::MOVED.iter().any(|(_, old)| *old == name);
        if is_new { stage.path(name) } else { pins.join(name) }
    };
    let object = loader::load(settings, Some(&place))?;
    if settings.old_cells != 0 {
        let cells = MapData::from_pin(stage.path(names::FRONT)).tried(names::FRONT)?;
        resize::copy_cells(&pinned.tables, &cells, settings.unknown != 0)?;
    }
    Ok(object)
}
