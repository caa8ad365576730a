//! What interfaces can take altogether, for elastic limits.

use ratelimit_common::{
    limits::limit::SECOND,
    meters::{
        gcra,
        interface_capacity::{self, Capacity},
    },
};

use crate::dataplane::{Error, error::Tried as _, tables::open::Tables};

/// Packets that a CPU counts at a time: what comes in so many nanoseconds.
const BATCH_TIME: u64 = SECOND / 1_000;

/// What an interface may be ahead of its capacity before it has no room: so many nanoseconds, and a tick of the coarse clock. At a fifth over its
/// capacity, it has none any more after 50 ms and five ticks.
const BURST_TIME: u64 = SECOND / 100;

/// The capacity of the interface with this index, in packets per second.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn of(tables: &Tables, index: u32) -> Result<Option<u64>, Error> {
    let found = read(tables, interface_capacity::place(index))?;
    Ok((found.interface == index && index != 0).then_some(found.per_second))
}

/// Whether any interface has a capacity.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn is_any(tables: &Tables) -> Result<bool, Error> {
    for place in 0..interface_capacity::PLACES {
        if read(tables, place)?.interface != 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Gives the interface with this index a capacity in packets per second, or takes it away with 0.
///
/// # Errors
///
/// [`Error::SamePlace`] where another interface has the only place for it.
pub fn set(tables: &mut Tables, index: u32, per_second: u64) -> Result<(), Error> {
    let place = interface_capacity::place(index);
    let running = read(tables, place)?;
    if per_second == 0 && running.interface != index {
        return Ok(());
    }
    if running.interface != 0 && running.interface != index {
        return Err(Error::SamePlace { index, other: running.interface });
    }
    let batch = (per_second / (SECOND / BATCH_TIME)).clamp(1, u64::from(u32::MAX));
    let cost = gcra::units(SECOND * batch).checked_div(per_second).unwrap_or(0);
    let burst = gcra::units(BURST_TIME + tables.control()?.tick).max(2 * cost);
    let entry = match per_second {
        0 => Capacity::default(),
        _ => Capacity { interface: index, batch: batch as u32, cost, burst, per_second, ..Capacity::default() },
    };
    tables.capacities.set(place, entry, 0).tried("cannot write a capacity")
}

/// Takes the capacities of all but these interfaces away: others are not attached any more.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn keep_only(tables: &mut Tables, indices: &[u32]) -> Result<(), Error> {
    for place in 0..interface_capacity::PLACES {
        let index = read(tables, place)?.interface;
        if index != 0 && !indices.contains(&index) {
            set(tables, index, 0)?;
        }
    }
    Ok(())
}

fn read(tables: &Tables, place: u32) -> Result<Capacity, Error> {
    tables.capacities.get(&place, 0).tried("cannot read a capacity")
}
