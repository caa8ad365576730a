//! Levels of cells, when the largest debt of the limits in use falls.
//!
//! The program takes a level further ahead than the largest debt for one of long ago. So before the largest debt falls,
//! all higher levels fall to the new one. Otherwise the program would forgive what the other sources of a cell owe.

use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::IterableMap as _;
use ratelimit_common::{
    cells::cell::Cell,
    meters::{
        gcra::{self, Units},
        stages,
    },
};

use crate::dataplane::{
    Error,
    sys::{host, mmap_array::Mapped},
    tables::open::Tables,
};

/// Lowers all levels of cells with more debt than `most` to that debt.
pub(crate) fn lower(tables: &Tables, most: Units) -> Result<(), Error> {
    let control = tables.control()?;
    // Tests inject the clock.
    let now = gcra::units(if control.clock == 0 { host::now() } else { control.clock });
    let is_above = |level: u64| stages::level_debt(level, now, control.largest_debt) > most;
    let cells = Mapped::<Cell>::to_write(tables.front.open()?.map())?;
    for place in (0..cells.len()).filter_map(|index| cells.place(index)) {
        // SAFETY: the words lie within the mapping, aligned, and all accesses are atomic.
        let levels =
            unsafe { [AtomicU64::from_ptr(&raw mut (*place).packets), AtomicU64::from_ptr(&raw mut (*place).second)] };
        for level in levels {
            // A packet may charge the level meanwhile. Whether there was anything to lower does not matter.
            let _ = level.fetch_update(Ordering::AcqRel, Ordering::Acquire, |level| {
                is_above(level).then(|| now.wrapping_add(most))
            });
        }
    }
    Ok(())
}
