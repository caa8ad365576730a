//! What a fleet leaves a source on this host now.

use aya::maps::IterableMap as _;
use ratelimit_common::{
    fleet::lease::{self, EVERY_SOURCE, Lease, WAYS, WHOLE},
    identity::source::Source,
    maps::control::{FEATURE_DIVIDE, FEATURE_LEASES},
};

use crate::{
    Error,
    sys::{host, mmap_array::Mapped},
    tables::open::Tables,
};

/// What a fleet leaves a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Part of its limit, from 0 to 1. None if the whole limit applies.
    pub share: Option<f64>,
    /// Number of hosts among which a source that is new to this host divides the burst of the default limit. None if it has
    /// the whole burst.
    pub hosts: Option<u64>,
}

/// Reads it for a source with its class. None if the instance shares no limits.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn of(tables: &Tables, source: &Source) -> Result<Option<Shares>, Error> {
    let control = tables.control()?;
    if control.features & FEATURE_LEASES == 0 {
        return Ok(None);
    }
    let leases = Mapped::<Lease>::of(tables.leases.open()?.map())?;
    let (places, now) = (leases.len() as u32, host::now());
    let held = |hash: u64| {
        let first = lease::first_place(hash, places);
        let places = first..first.saturating_add(WAYS);
        places.filter_map(|place| leases.get(place as usize)).find(|lease| lease.source == hash && lease.end > now)
    };
    let divides = control.features & FEATURE_DIVIDE != 0;
    Ok(Some(Shares {
        share: held(source.hash(&control.seed)).map(|lease| part(&lease)),
        hosts: held(EVERY_SOURCE).filter(|_| divides).map(|lease| lease::hosts(lease.multiplier)),
    }))
}

/// Returns the part of a limit that a lease leaves.
fn part(lease: &Lease) -> f64 {
    WHOLE as f64 / lease.multiplier.max(WHOLE) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_is_the_share_that_was_granted() {
        for share in [1.0, 0.5, 0.125, 1.0 / 65_536.0] {
            assert_eq!(part(&Lease { multiplier: lease::multiplier(share), ..Lease::default() }), share);
        }
        assert_eq!(part(&Lease::default()), 1.0);
    }
}
