//! Capacities of interfaces, which elastic limits use.

use std::os::fd::AsFd as _;

use aya::maps::IterableMap as _;
use ratelimit_common::{
    limits::limit::SECOND,
    meters::{
        gcra,
        interface_capacity::{self, Capacity},
    },
};

use crate::{Error, error::Tried as _, sys::bpf, tables::open::Tables};

/// Nanoseconds' worth of packets that a CPU takes at a time.
const BATCH_TIME: u64 = SECOND / 1_000;

/// How far an interface can exceed its capacity before it has no room: nanoseconds, in addition to a tick of the coarse
/// clock. At a fifth over its capacity, it has none after 50 ms and five ticks.
const BURST_TIME: u64 = SECOND / 100;

/// Returns the capacity of the interface with this index, in packets per second.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn of(tables: &Tables, index: u32) -> Result<Option<u64>, Error> {
    let found = read(tables, interface_capacity::place(index))?;
    Ok((found.interface == index && index != 0).then_some(found.per_second))
}

/// Returns whether any interface has a capacity.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn is_any(tables: &Tables) -> Result<bool, Error> {
    Ok(all(tables)?.iter().any(|capacity| capacity.interface != 0))
}

/// Sets the capacity of the interface with this index, in packets per second. 0 removes it.
///
/// # Errors
///
/// [`Error::SamePlace`] if another interface has the only place for it.
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
    tables.capacities.open_mut()?.set(place, entry, 0).tried("cannot write a capacity")
}

/// Removes the capacities of all interfaces except these, which are still attached.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn keep_only(tables: &mut Tables, indices: &[u32]) -> Result<(), Error> {
    for Capacity { interface: index, .. } in all(tables)? {
        if index != 0 && !indices.contains(&index) {
            set(tables, index, 0)?;
        }
    }
    Ok(())
}

fn read(tables: &Tables, place: u32) -> Result<Capacity, Error> {
    tables.capacities.open()?.get(&place, 0).tried("cannot read a capacity")
}

fn all(tables: &Tables) -> Result<Vec<Capacity>, Error> {
    let map = tables.capacities.open()?;
    bpf::array(map.map().fd().as_fd(), map.len())
}
