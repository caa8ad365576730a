//! Moves entries between maps of unlike sizes. What a packet asks for meanwhile, the program itself fetches.

use std::{
    os::fd::AsFd as _,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use aya::{
    Pod,
    maps::{HashMap, IterableMap, MapData, MapError},
    sys::SyscallError,
};
use ratelimit_common::{
    buckets::{bucket::Bucket, sliding_log::Log},
    cells::{
        cell::{Cell, Noted},
        known_source::KnownSource,
    },
    identity::source::Source,
    maps::names,
    meters::{
        gcra::{self, Units},
        stages,
    },
};

use crate::dataplane::{
    Error,
    error::Tried as _,
    sys::{bpf, host, mmap_array::Mapped},
    tables::open::{self, Tables},
};

/// For the kernel's `BPF_MAP_UPDATE_ELEM`: only where there is no such entry (include/uapi/linux/bpf.h).
const NOT_THERE: u64 = 1;

/// Moves what the running program has not fetched yet. Nothing where nothing moves.
pub(crate) fn finish(pins: &Path, tables: &mut Tables) -> Result<(), Error> {
    if pins.join(names::OLD_FRONT).exists() {
        let old = MapData::from_pin(pins.join(names::OLD_FRONT)).tried(names::OLD_FRONT)?;
        raise_levels(&Mapped::of(&old)?, &Mapped::to_write(tables.front.map())?, Levels::now(tables)?);
    }
    if pins.join(names::OLD_BUCKETS).exists() {
        let mut old: HashMap<MapData, Source, Bucket> = open::open(pins, names::OLD_BUCKETS)?;
        insert_missing(&mut old, &mut tables.buckets)?;
    }
    if pins.join(names::OLD_SLIDING_LOGS).exists() {
        let mut old: HashMap<MapData, Source, Log> = open::open(pins, names::OLD_SLIDING_LOGS)?;
        insert_missing(&mut old, &mut tables.logs)?;
    }
    Ok(())
}

/// Moves what is still there. Whatever was moved is taken away, or it would come back with what it owed once, should it be evicted.
fn insert_missing<V: Pod>(
    old: &mut HashMap<MapData, Source, V>,
    new: &mut HashMap<MapData, Source, V>,
) -> Result<(), Error> {
    for (source, entry) in bpf::entries::<Source, V>(IterableMap::map(old).fd().as_fd())? {
        // The program may have fetched it since.
        if matches!(old.get(&source, 0), Err(MapError::KeyNotFound)) {
            continue;
        }
        match new.insert(source, entry, NOT_THERE) {
            // It is just doing so.
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

/// Makes the cells of a map that no program has yet: what they remember, as far as there is room for it. Levels are raised again when nobody
/// charges the old ones any more.
pub(crate) fn copy_cells(tables: &Tables, new: &MapData, with_known: bool) -> Result<(), Error> {
    let (old, levels) = (tables.front.map(), Levels::now(tables)?);
    let (old, new) = (Mapped::<Cell>::of(old)?, Mapped::<Cell>::to_write(new)?);
    for_pairs(&old, &new, |seen, place| {
        // SAFETY: the entry lies within the mapping, which nobody else has yet.
        unsafe { *place = joined(&*place, &seen, levels, with_known) };
    });
    Ok(())
}

/// By what levels are compared.
#[derive(Clone, Copy)]
struct Levels {
    now: Units,
    most: Units,
}

impl Levels {
    fn now(tables: &Tables) -> Result<Self, Error> {
        Ok(Self { now: gcra::units(host::now()), most: tables.control()?.largest_debt })
    }

    fn is_higher(self, level: u64, than: u64) -> bool {
        stages::is_higher(level, than, self.now, self.most)
    }
}

/// Raises levels to what the cells before show.
fn raise_levels(old: &Mapped<Cell>, new: &Mapped<Cell>, levels: Levels) {
    for_pairs(old, new, |seen, place| {
        // SAFETY: the words lie within the mapping, aligned, and everybody changes them atomically.
        let [packets, second] =
            unsafe { [AtomicU64::from_ptr(&raw mut (*place).packets), AtomicU64::from_ptr(&raw mut (*place).second)] };
        for (level, before) in [(packets, seen.packets), (second, seen.second)] {
            // Whether it was higher already does not matter.
            let _ = level.fetch_update(Ordering::AcqRel, Ordering::Acquire, |level| {
                levels.is_higher(before, level).then_some(before)
            });
        }
    });
}

/// Calls `work` with every cell and every place that sources of it have now: both numbers are powers of two.
fn for_pairs(old: &Mapped<Cell>, new: &Mapped<Cell>, mut work: impl FnMut(Cell, *mut Cell)) {
    for index in 0..old.len().max(new.len()) {
        if let (Some(seen), Some(place)) = (old.get(index % old.len()), new.place(index % new.len())) {
            work(seen, place);
        }
    }
}

/// What two cells are as one. Of what they remember, as much as there is room for.
fn joined(one: &Cell, other: &Cell, levels: Levels, with_known: bool) -> Cell {
    let higher = |one, other| if levels.is_higher(other, one) { other } else { one };
    let nobody = Noted::default();
    let notes = if with_known {
        let [[a, b], [c, d]] = [one.known(), other.known()];
        let mut known = [a, b, c, d];
        known.sort_by_key(|word| (!KnownSource(*word).is_known(), *word == 0));
        let note = if one.notes[0] == nobody { other.notes[0] } else { one.notes[0] };
        [note, Noted { until: known[0], check: known[1], dropped: 0 }]
    } else {
        let mut notes = one.notes.into_iter().chain(other.notes).filter(|note| *note != nobody);
        [notes.next().unwrap_or(nobody), notes.next().unwrap_or(nobody)]
    };
    Cell { packets: higher(one.packets, other.packets), second: higher(one.second, other.second), notes }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN_OFTEN: u64 = 3 << 24;
    const SEEN_ONCE: u64 = 1 << 24;

    const LEVELS: Levels = Levels { now: 1_000, most: 500 };

    fn noted(until: u64) -> Noted {
        Noted { until, check: until + 1, dropped: 0 }
    }

    #[test]
    fn joined_cells_have_the_higher_levels_and_the_first_two_notes() {
        let one = Cell { packets: 1_005, second: 0, notes: [noted(0), noted(7)] };
        let one = Cell { notes: [Noted::default(), one.notes[1]], ..one };
        let other = Cell { packets: 1_004, second: 1_009, notes: [noted(8), noted(9)] };
        let cell = joined(&one, &other, LEVELS, false);
        assert_eq!((cell.packets, cell.second), (1_005, 1_009));
        assert_eq!(cell.notes, [noted(7), noted(8)]);
        assert_eq!(joined(&Cell::default(), &other, LEVELS, false), other);
    }

    #[test]
    fn of_four_remembered_sources_the_known_sources_stay() {
        let cell = |first, second| Cell {
            notes: [Noted::default(), Noted { until: first, check: second, dropped: 0 }],
            ..Cell::default()
        };
        let (known, candidate) = (1 << 40 | SEEN_OFTEN, 2 << 40 | SEEN_ONCE);
        let other_known = 3 << 40 | SEEN_OFTEN;
        let all = joined(&cell(candidate, known), &cell(0, other_known), LEVELS, true);
        assert_eq!(all.known(), [known, other_known]);
        assert_eq!(joined(&cell(0, 0), &cell(candidate, 0), LEVELS, true).known(), [candidate, 0]);
    }
}
