//! Moves entries between maps of different sizes.
//!
//! Copying a million buckets takes a second, in which sources would spend what the copy does not know. So nothing is
//! copied before the switch: the new program also has the old maps, and fetches an entry when it is first used. This
//! code moves the rest. Then a third program without that stage takes over. Levels of cells are raised to those of the
//! old cells, which never understates a debt.

use std::{cmp::Reverse, os::fd::AsFd as _, path::Path};

use aya::{
    Pod,
    maps::{HashMap, IterableMap, MapData, MapError},
    sys::SyscallError,
};
use aya_obj::generated::BPF_NOEXIST;
use ratelimit_common::{
    buckets::{bucket::Bucket, sliding_log::Log},
    cells::{
        cell::{Cell, RefusalSlot},
        known_source::KnownSource,
    },
    identity::source::Source,
    maps::names,
};

use crate::{
    Error,
    error::Tried as _,
    rules::policies::levels::{self, Scale},
    sys::{bpf, mmap_array::Mapped},
    tables::{open::Tables, table},
};

/// Moves the entries that the running program has not fetched. Does nothing if no resize is in progress.
pub fn finish(pins: &Path, tables: &mut Tables) -> Result<(), Error> {
    if pins.join(names::OLD_FRONT).exists() {
        let old = MapData::from_pin(pins.join(names::OLD_FRONT)).tried(names::OLD_FRONT)?;
        raise_levels(&Mapped::of(&old)?, &Mapped::to_write(tables.front.open()?.map())?, Scale::of(&tables.control()?));
    }
    if pins.join(names::OLD_BUCKETS).exists() {
        let mut old: HashMap<MapData, Source, Bucket> = table::open(pins, names::OLD_BUCKETS)?;
        insert_missing(&mut old, tables.buckets.open_mut()?)?;
    }
    if pins.join(names::OLD_SLIDING_LOGS).exists() {
        let mut old: HashMap<MapData, Source, Log> = table::open(pins, names::OLD_SLIDING_LOGS)?;
        insert_missing(&mut old, tables.logs.open_mut()?)?;
    }
    Ok(())
}

/// Moves all remaining entries. It removes each from the old map. Otherwise an evicted entry would come back with its
/// old debt.
fn insert_missing<V: Pod>(
    old: &mut HashMap<MapData, Source, V>,
    new: &mut HashMap<MapData, Source, V>,
) -> Result<(), Error> {
    for (source, entry) in bpf::entries::<Source, V>(IterableMap::map(old).fd().as_fd())? {
        // The program may have fetched it since.
        if matches!(old.get(&source, 0), Err(MapError::KeyNotFound)) {
            continue;
        }
        match new.insert(source, entry, BPF_NOEXIST.into()) {
            // The program is fetching it.
            Err(MapError::SyscallError(SyscallError { io_error, .. }))
                if io_error.raw_os_error() == Some(libc::EEXIST) => {}
            outcome => outcome.tried("cannot move an entry")?,
        }
        match old.remove(&source) {
            Err(MapError::KeyNotFound) => {}
            outcome => outcome.tried("cannot move an entry")?,
        }
    }
    Ok(())
}

/// Fills the cells of a map that no program uses yet, as far as there is room. Levels are raised again when no program
/// charges the old cells. Of the cells into which one is divided, each gets its own known sources, if there were 4,096
/// cells or more.
pub fn copy_cells(tables: &Tables, new: &MapData, with_known: bool) -> Result<(), Error> {
    let (old, scale) = (tables.front.open()?.map(), Scale::of(&tables.control()?));
    let (old, new) = (Mapped::<Cell>::of(old)?, Mapped::<Cell>::to_write(new)?);
    for index in 0..old.len().max(new.len()) {
        let to = index % new.len();
        let (Some(mut seen), Some(place)) = (old.get(index % old.len()), new.place(to)) else { continue };
        if with_known {
            seen.refusals[1] = kept_known(&seen, |word| KnownSource(word).belongs_to(to, old.len(), new.len()));
        }
        // SAFETY: the entry lies within the mapping, which no other process has yet.
        unsafe { *place = joined(&*place, &seen, scale, with_known) };
    }
    Ok(())
}

/// Raises levels to those of the old cells.
fn raise_levels(old: &Mapped<Cell>, new: &Mapped<Cell>, scale: Scale) {
    for index in 0..old.len().max(new.len()) {
        let seen = old.get(index % old.len()).unwrap_or_default();
        let words = levels::of_cell(new, index % new.len()).into_iter().flatten();
        words.zip([seen.packets, seen.second]).for_each(|(word, level)| scale.raise(word, level));
    }
}

/// Returns the known sources of a cell that stay.
fn kept_known(cell: &Cell, stays: impl Fn(u64) -> bool) -> RefusalSlot {
    let [until, check] = cell.known().map(|word| if stays(word) { word } else { 0 });
    RefusalSlot { until, check }
}

/// Joins two cells, as far as there is room.
fn joined(one: &Cell, other: &Cell, scale: Scale, with_known: bool) -> Cell {
    let higher = |one, other| if scale.is_higher(other, one) { other } else { one };
    let nobody = RefusalSlot::default();
    let notes = if with_known {
        let [[a, b], [c, d]] = [one.known(), other.known()];
        let mut known = [a, b, c, d];
        known.sort_by_key(|word| Reverse(KnownSource(*word).tenure()));
        let note = if one.refusals[0] == nobody { other.refusals[0] } else { one.refusals[0] };
        [note, RefusalSlot { until: known[0], check: known[1] }]
    } else {
        let mut notes = one.refusals.into_iter().chain(other.refusals).filter(|note| *note != nobody);
        [notes.next().unwrap_or(nobody), notes.next().unwrap_or(nobody)]
    };
    let (packets, second) = (higher(one.packets, other.packets), higher(one.second, other.second));
    // The filters begin anew, as after an upgrade.
    Cell { packets, second, refusals: notes, filters: [0; 2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN_OFTEN: u64 = 3 << 24;
    const SEEN_ONCE: u64 = 1 << 24;

    const SCALE: Scale = Scale { now: 1_000, most: 500 };

    fn noted(until: u64) -> RefusalSlot {
        RefusalSlot { until, check: until + 1 }
    }

    #[test]
    fn joined_cells_have_the_higher_levels_and_the_first_two_notes() {
        let one = Cell { packets: 1_005, second: 0, refusals: [noted(0), noted(7)], ..Cell::default() };
        let one = Cell { refusals: [RefusalSlot::default(), one.refusals[1]], ..one };
        let other = Cell { packets: 1_004, second: 1_009, refusals: [noted(8), noted(9)], ..Cell::default() };
        let cell = joined(&one, &other, SCALE, false);
        assert_eq!((cell.packets, cell.second), (1_005, 1_009));
        assert_eq!(cell.refusals, [noted(7), noted(8)]);
        assert_eq!(joined(&Cell::default(), &other, SCALE, false), other);
    }

    #[test]
    fn a_known_source_that_belongs_to_another_cell_leaves_its_place() {
        let words = [KnownSource::proven(1 << 17, 5).0, KnownSource::proven(1 << 18, 5).0];
        let cell = Cell { refusals: [noted(3), RefusalSlot { until: words[0], check: words[1] }], ..Cell::default() };
        let of = |index| kept_known(&cell, |word| KnownSource(word).belongs_to(index, 1 << 17, 1 << 19));
        assert_eq!(of(1 << 17), RefusalSlot { until: words[0], check: 0 });
        assert_eq!(of(1 << 18), RefusalSlot { until: 0, check: words[1] });
        assert_eq!(of(0), RefusalSlot::default());
    }

    #[test]
    fn of_four_remembered_sources_the_known_sources_stay() {
        let cell = |first, second| Cell {
            refusals: [RefusalSlot::default(), RefusalSlot { until: first, check: second }],
            ..Cell::default()
        };
        let (known, candidate) = (1 << 40 | SEEN_OFTEN, 2 << 40 | SEEN_ONCE);
        let other_known = 3 << 40 | SEEN_OFTEN;
        let all = joined(&cell(candidate, known), &cell(0, other_known), SCALE, true);
        assert_eq!(all.known(), [known, other_known]);
        assert_eq!(joined(&cell(0, 0), &cell(candidate, 0), SCALE, true).known(), [candidate, 0]);
    }
}
