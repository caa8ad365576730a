//! Readings of cells.

use aya::maps::IterableMap as _;
use ratelimit_common::{
    cells::{
        cell::Cell,
        known_source::{self, KnownSource},
    },
    identity::class::ANY,
    meters::{gcra, meter::Meter, stages},
};

use crate::{
    Error,
    sys::{host, mmap_array::Mapped},
    tables::open::Tables,
};

/// Returns the number of cells.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn number(tables: &Tables) -> Result<usize, Error> {
    Ok(Mapped::<Cell>::of(tables.front.open()?.map())?.len())
}

/// Returns the number of cells whose debt exceeds that of one source under the default limit, so that several sources
/// over the limit share them. None if there is no default limit by buckets.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn crowded(tables: &Tables) -> Result<Option<usize>, Error> {
    let policy = tables.policies.get(tables.default_policy(ANY)?)?;
    if !policy.packets.is_on() && !policy.second.is_on() {
        return Ok(None);
    }
    let (now, most) = (gcra::units(host::now()), tables.control()?.largest_debt);
    let exceeds = |level: u64, meter: &Meter| meter.is_on() && stages::level_debt(level, now, most) > meter.ceiling;
    let cells = Mapped::<Cell>::of(tables.front.open()?.map())?;
    let is_crowded = |cell: &Cell| exceeds(cell.packets, &policy.packets) || exceeds(cell.second, &policy.second);
    Ok(Some(cells.iter().filter(is_crowded).count()))
}

/// Returns the number of known sources.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn known(tables: &Tables) -> Result<usize, Error> {
    let second = known_source::second(host::now());
    let is_known = |word: &u64| KnownSource(*word).is_known() && !KnownSource(*word).gives_way(second);
    let cells = Mapped::<Cell>::of(tables.front.open()?.map())?;
    Ok(cells.iter().flat_map(|cell| cell.known()).filter(is_known).count())
}
