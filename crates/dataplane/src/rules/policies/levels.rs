//! Levels of cells and lanes as the user side changes them, beside the packets that charge them.
//!
//! The program takes a level further ahead than the largest debt of all limits for one of long ago. So before the
//! largest debt falls, all higher levels fall to the new one. Otherwise the program would forgive what the other
//! sources of a cell owe.

use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::IterableMap as _;
use ratelimit_common::{
    cells::cell::Cell,
    maps::{control::Control, levels::Levels},
    meters::{
        gcra::{self, Units},
        stages,
    },
};

use crate::{
    Error,
    sys::{host, mmap_array::Mapped},
    tables::open::Tables,
};

/// The time and the largest debt, by which levels are compared.
#[derive(Clone, Copy)]
pub struct Scale {
    pub now: Units,
    pub most: Units,
}

impl Scale {
    /// Returns the scale of this moment. Tests inject the time.
    pub fn of(control: &Control) -> Self {
        let now = gcra::units(if control.clock == 0 { host::now() } else { control.clock });
        Self { now, most: control.largest_debt }
    }

    /// Returns the debt of a level.
    pub fn debt(self, level: u64) -> Units {
        stages::level_debt(level, self.now, self.most)
    }

    /// Returns whether a level owes more than another.
    pub fn is_higher(self, level: u64, than: u64) -> bool {
        stages::is_higher(level, than, self.now, self.most)
    }

    /// Raises a level to another one. Whether it was higher already does not matter.
    pub fn raise(self, level: &AtomicU64, to: u64) {
        let _ = level.fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| self.is_higher(to, seen).then_some(to));
    }
}

/// Lowers all levels with more debt than `most` to that debt.
pub fn lower(tables: &Tables, most: Units) -> Result<(), Error> {
    let scale = Scale::of(&tables.control()?);
    let lower = |level: &AtomicU64| {
        // A packet may charge the level meanwhile. Whether there was anything to lower does not matter.
        let _ = level.fetch_update(Ordering::AcqRel, Ordering::Acquire, |level| {
            (scale.debt(level) > most).then(|| scale.now.wrapping_add(most))
        });
    };
    let cells = Mapped::<Cell>::to_write(tables.front.open()?.map())?;
    (0..cells.len()).filter_map(|index| of_cell(&cells, index)).flatten().for_each(lower);
    let lanes = Mapped::<Levels>::to_write(tables.levels.open()?.map())?;
    (0..lanes.len()).filter_map(|index| of_lanes(&lanes, index)).flatten().for_each(lower);
    Ok(())
}

/// Returns both levels of a cell.
pub fn of_cell(cells: &Mapped<Cell>, index: usize) -> Option<[&AtomicU64; 2]> {
    let place = cells.place(index)?;
    // SAFETY: the words lie within the mapping, which outlives the references, aligned, and all accesses are atomic.
    unsafe { Some([AtomicU64::from_ptr(&raw mut (*place).packets), AtomicU64::from_ptr(&raw mut (*place).second)]) }
}

/// Returns both levels of an entry of the lanes. None if the map is smaller, because the program does not use it.
pub fn of_lanes(lanes: &Mapped<Levels>, index: usize) -> Option<[&AtomicU64; 2]> {
    let place = lanes.place(index)?;
    // SAFETY: as above.
    unsafe { Some([AtomicU64::from_ptr(&raw mut (*place).packets), AtomicU64::from_ptr(&raw mut (*place).second)]) }
}
