//! What the cells show just now.

use aya::maps::IterableMap as _;
use ratelimit_common::{
    cells::{
        cell::Cell,
        known_source::{self, KnownSource},
    },
    identity::class::ANY,
    limits::policy::Meter,
    meters::{gcra, stages},
};

use crate::dataplane::{
    Error,
    rules::policies,
    sys::{host, mmap_array::Mapped},
    tables::open::Tables,
};

/// Cells that owe more than one source may under the default limit, so that several which exceed it are in there. Nothing where no cell
/// is asked for a default limit: there is none, or its parents decide.
///
/// A source whose own rule allows a larger burst makes its cell look crowded as well.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn crowded(tables: &Tables) -> Result<Option<usize>, Error> {
    let policy = policies::read(tables, tables.default_policy(ANY)?)?;
    if policy.has_parents() || !policy.packets.is_on() && !policy.second.is_on() {
        return Ok(None);
    }
    let (now, most) = (gcra::units(host::now()), tables.control()?.largest_debt);
    let exceeds = |level: u64, meter: &Meter| meter.is_on() && stages::level_debt(level, now, most) > meter.ceiling;
    let cells = Mapped::<Cell>::of(tables.front.map())?;
    let is_crowded = |cell: &Cell| exceeds(cell.packets, &policy.packets) || exceeds(cell.second, &policy.second);
    Ok(Some(cells.iter().filter(is_crowded).count()))
}

/// Sources that are known as known sources.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn known(tables: &Tables) -> Result<usize, Error> {
    let second = known_source::second(host::now());
    let is_known = |word: &u64| KnownSource(*word).is_known() && !KnownSource(*word).gives_way(second);
    let cells = Mapped::<Cell>::of(tables.front.map())?;
    Ok(cells.iter().flat_map(|cell| cell.known()).filter(is_known).count())
}
