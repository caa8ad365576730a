//! Brings an instance of another build to the layouts of this one, without a gap. Maps of the same layout stay. The
//! others are created anew and filled field by field: rules exactly, buckets as they are when they are read just before
//! the switch.
//!
//! Names of maps and fields that differ between versions are translated first.

mod bans;
mod buckets;
mod fields;
mod layout;

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use aya::maps::{MapData, MapType};
use ratelimit_common::{
    identity::{filter::Filter, narrow::Lengths},
    maps::{
        control::{ABI_VERSION, Control, FEATURE_FRONT, OWN_DEFAULT, PROOFS_DEFAULT},
        names,
    },
};

use crate::{
    Error,
    attach::{attachment::Attachments, carried},
    error::{Tried as _, at},
    instance::swap::staging::{Stage, unfinished},
    pins::{
        layout::{self as pins, LINKS, PROGRAMS},
        ours::Ours,
    },
    program::{
        control_init,
        loader::{self, Settings},
        programs::Programs,
    },
    sys::{bpf::raw::RawMap, host, mmap_array::Mapped},
};
use layout::{Layout, Maps, bytes, from_bytes, read};

/// Maps that packets change while they are copied, and so come last.
const LAST: [&str; 6] =
    [names::CONTROL, names::BANS, names::BAN_FILTER, names::SLIDING_LOGS, names::BUCKETS, names::FRONT];

/// The first [`ABI_VERSION`] whose features tell whether a limit counts bytes.
const BYTES_SINCE: u32 = 13;
/// The first [`ABI_VERSION`] that spares own connections.
const OWN_SINCE: u32 = 17;

/// The first [`ABI_VERSION`] with SYN cookies.
const PROOFS_SINCE: u32 = 21;

/// The first [`ABI_VERSION`] that spares the host's own network.
const SPARE_SINCE: u32 = 25;

/// Brings the instance in `pins` to this build. The caller has the lock.
///
/// # Errors
///
/// Any failure of its steps. The old program and its maps stay then.
pub fn migrate(pins: &Path, attachments: &Attachments) -> Result<(), Error> {
    let before = layouts(pins)?;
    // The kernel knows the layouts of this build's maps as soon as they exist.
    let samples = Stage::begin(pins, attachments)?;
    let known = loader::maps(&Settings::default(), Some(&|name| samples.path(name)));
    let known = known.and_then(|_| layouts(samples.folder()));
    samples.abandon()?;
    let known = known?;
    let stage = Stage::begin(pins, attachments)?;
    // Earlier versions attached the program for Ethernet everywhere.
    let raw_ip = Programs::from_pins(pins).and_then(|programs| carried::has_raw_ip(attachments, &programs.raw_ids()?));
    let outcome = raw_ip.and_then(|raw_ip| prepare(pins, &stage, &before, &known, raw_ip));
    if outcome.is_err() {
        // The operator must see the failure itself, not one of tidying up.
        let _ = stage.abandon();
    }
    outcome?;
    let ours = Ours::of(pins)?;
    stage.put_in_force(attachments)?;
    forget_others(pins, &ours).map_err(unfinished)
}

/// Returns the maps that are pinned in a folder.
fn layouts(folder: &Path) -> Result<Maps, Error> {
    let mut found = HashMap::new();
    for name in names::PINNED {
        if let Some(path) = pins::map_path(folder, name) {
            let map = RawMap::from_pin(&path)?;
            let layout = Layout::of(&map)?;
            found.insert(name, (map, layout));
        }
    }
    Ok(found)
}

/// Creates the maps that differ, and loads the program.
fn prepare(pins: &Path, stage: &Stage<'_>, before: &Maps, known: &Maps, raw_ip: bool) -> Result<(), Error> {
    let settings = Settings { raw_ip, ..settings(before, known)? };
    let requested = |name: &'static str| {
        let layout = known.get(name).map(|(_, layout)| layout.clone());
        let is_sized = names::SIZED.contains(&name);
        layout.map(|layout| if is_sized { layout.with_entries(settings.entries(name)) } else { layout })
    };
    let is_equal =
        |name: &'static str| before.get(name).is_some_and(|(_, layout)| requested(name).as_ref() == Some(layout));
    let stays = |name: &'static str| match name {
        names::CONTROL => false,
        // Cells of another layout lose their filters of buckets, so epochs begin anew.
        names::CREATED => is_equal(name) && is_equal(names::FRONT),
        _ => is_equal(name),
    };
    // A map that stays under another name gets a second pin. The old one goes last.
    for name in names::PINNED.into_iter().filter(|name| stays(name) && !pins.join(name).exists()) {
        if let Some(path) = pins::map_path(pins, name) {
            MapData::from_pin(path).tried(name)?.pin(stage.path(name)).tried("cannot pin a map")?;
        }
    }
    let place = |name: &str| match names::PINNED.into_iter().find(|pinned| *pinned == name) {
        Some(name) if stays(name) && pins.join(name).exists() => pins.join(name),
        _ => stage.path(name),
    };
    let mut object = loader::load(&settings, Some(&place))?;
    let others = names::PINNED.into_iter().filter(|name| !LAST.contains(name));
    for name in others.chain(LAST).filter(|name| !stays(name) && *name != names::CREATED) {
        if let (Some((old, from)), Some(to)) = (before.get(name), requested(name)) {
            match name {
                names::BANS if bans::are_of_layout_12(old) => bans::copy(old, from, known, &place)?,
                _ => copy(name, (old, from), (&RawMap::from_pin(&stage.path(name))?, &to))?,
            }
        }
    }
    mark_parts(stage)?;
    if !stays(names::FINE_FILTER) {
        mark_groups(stage)?;
    }
    copy_unmoved(pins, &place, before, known)?;
    let control = RawMap::from_pin(&stage.path(names::CONTROL))?;
    let mut entry: Control = read(&control)?;
    entry.abi = ABI_VERSION;
    if entry.suspended == 0 {
        // Earlier versions did not record it, and could not know of a suspend.
        entry.suspended = host::suspended();
    }
    entry.unfinished = 1;
    control_init::apply(&settings, loader::build(), &mut entry);
    // Buckets resolve their policy again, because slots may differ.
    entry = entry.with_same_lists();
    entry.generation = entry.generation.wrapping_add(1);
    control.put(&0u32.to_ne_bytes(), bytes(&entry))?;
    loader::pin(&mut object, &settings, stage.folder(), &place)
}

/// Returns the settings of the running instance, as this build understands them.
fn settings(before: &Maps, known: &Maps) -> Result<Settings, Error> {
    let (Some((map, from)), Some((_, to))) = (before.get(names::CONTROL), known.get(names::CONTROL)) else {
        return Err(Error::Interrupted);
    };
    let value = map.get(&0u32.to_ne_bytes())?.unwrap_or_default();
    let control: Control = from_bytes(&to.value(from, &value, false))?;
    let entries = |name| before.get(name).map_or(1, |(map, _)| map.entries());
    let cells = if control.features & FEATURE_FRONT == 0 { 0 } else { entries(names::FRONT) };
    let running = Settings::running(&control, entries(names::BUCKETS), cells);
    Ok(Settings {
        // Layout 12 had no feature for bans.
        bans: running.bans || bans::are_needed(before, known)?,
        // Earlier versions do not say whether a limit counts bytes. The command finds out when it has opened the maps.
        bytes: running.bytes || control.abi < BYTES_SINCE,
        // Earlier versions had no such setting.
        own: if control.abi < OWN_SINCE { OWN_DEFAULT } else { running.own },
        spare: running.spare || control.abi < SPARE_SINCE,
        proofs: if control.abi < PROOFS_SINCE { PROOFS_DEFAULT } else { running.proofs },
        ..running
    })
}

/// Makes the program search for every part of an IPv6 source, until the filter is rebuilt. Layout 12 marked no parts.
fn mark_parts(stage: &Stage<'_>) -> Result<(), Error> {
    let open = |name| RawMap::from_pin(&stage.path(name));
    if !stage.path(names::RULE_FILTER).exists() {
        return Ok(());
    }
    let (control, filter) = (open(names::CONTROL)?, open(names::RULE_FILTER)?);
    let (mut entry, mut marked): (Control, Filter) = (read(&control)?, read(&filter)?);
    if entry.narrow_rules != 0 {
        entry.narrow_rules = Lengths::MANY.0;
        marked.add_all_parts();
        control.put(&0u32.to_ne_bytes(), bytes(&entry))?;
        filter.put(&0u32.to_ne_bytes(), bytes(&marked))?;
    }
    Ok(())
}

/// Makes the program look rules up for every source, until the filter is rebuilt. Layouts before 24 had no such filter.
fn mark_groups(stage: &Stage<'_>) -> Result<(), Error> {
    let map = MapData::from_pin(stage.path(names::FINE_FILTER)).tried(names::FINE_FILTER)?;
    let words = Mapped::<u64>::to_write(&map)?;
    for place in (0..words.len()).filter_map(|index| words.place(index)) {
        // SAFETY: the entry lies within the mapping, and no program runs with this map yet.
        unsafe { place.write(u64::MAX) };
    }
    Ok(())
}

/// Copies every entry. Entries of arrays keep their number.
fn copy(name: &str, (old, from): (&RawMap, &Layout), (new, to): (&RawMap, &Layout)) -> Result<(), Error> {
    old.each(|key, value| {
        let place =
            if name == names::COUNTERS { counter(key, old.entries(), new.entries()) } else { to.key(from, key) };
        let is_beyond = is_array(new) && number(&place) >= new.entries();
        if is_beyond { Ok(()) } else { new.put(&place, &buckets::value(name, to, from, value, new.is_per_cpu())?) }
    })
}

/// Copies what an interrupted resize has not moved yet, except levels of cells: those sources may get half a burst
/// twice, or a whole one while the budget for buckets is spent.
fn copy_unmoved(pins: &Path, place: &dyn Fn(&str) -> PathBuf, before: &Maps, known: &Maps) -> Result<(), Error> {
    for (name, old) in [(names::BUCKETS, names::OLD_BUCKETS), (names::SLIDING_LOGS, names::OLD_SLIDING_LOGS)] {
        let (Some((_, from)), Some((_, to))) = (before.get(name), known.get(name)) else { continue };
        if let Some(old) = pins::map_path(pins, old) {
            let new = RawMap::from_pin(&place(name))?;
            let value = |value: &[u8]| buckets::value(name, to, from, value, false);
            let add = |key: &[u8], old: &[u8]| new.add(&to.key(from, key), &value(old)?);
            RawMap::from_pin(&old)?.each(add)?;
        }
    }
    Ok(())
}

/// Returns the place of a counter. Each reason has two, the second for packets that pass in shadow. New reasons come
/// last, removed ones have no place.
fn counter(key: &[u8], before: u32, after: u32) -> Vec<u8> {
    let (number, before, after) = (number(key), before / 2, after / 2);
    let reason = number % before.max(1);
    let half = if number < before { 0 } else { after };
    let place = if reason < after { half + reason } else { u32::MAX };
    place.to_ne_bytes().to_vec()
}

fn number(key: &[u8]) -> u32 {
    key.try_into().map_or(u32::MAX, u32::from_ne_bytes)
}

fn is_array(map: &RawMap) -> bool {
    map.is_one_of(&[MapType::Array, MapType::PerCpuArray])
}

/// Removes pins of the other version that this build does not use.
fn forget_others(pins: &Path, ours: &Ours) -> Result<(), Error> {
    for entry in fs::read_dir(pins).map_err(at(pins))? {
        let entry = entry.map_err(at(pins))?;
        let name = entry.file_name();
        let is_used = names::PINNED.into_iter().chain(PROGRAMS).chain([LINKS]).any(|known| name == known);
        let is_old = name
            .to_str()
            .is_some_and(|name| names::MOVED.iter().any(|(_, old)| name == *old) || pins::other_name(name).is_some());
        if !is_used && (is_old || ours.has(&entry.path())) {
            pins::remove_file(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::counter;

    #[test]
    fn counters_keep_their_reason_and_their_half_whichever_version_has_more() {
        let moved = |number: u32, before, after| super::number(&counter(&number.to_ne_bytes(), before, after));
        // Three reasons before, five now, and the other way round.
        assert_eq!([0, 2, 3, 5].map(|number| moved(number, 6, 10)), [0, 2, 5, 7]);
        assert_eq!([0, 2, 5, 7].map(|number| moved(number, 10, 6)), [0, 2, 3, 5]);
        assert_eq!([3, 4, 8, 9].map(|number| moved(number, 10, 6)), [u32::MAX; 4]);
    }
}
