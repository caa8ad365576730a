//! The verdicts on the packets of each interface.

use std::collections::BTreeSet;

use ratelimit_common::maps::interface_counters::{Counts, Ledger, OTHERS};

use crate::{
    Error,
    tables::{counters::place_of, open::Tables},
};

/// The most readings of the ledger until two in a row are equal.
const READINGS: usize = 5;

/// Packet verdicts by interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    /// The requested interfaces with their counts. None for an interface without a place of its own.
    pub interfaces: Vec<(u32, Option<Counts>)>,
    /// All interfaces without a place, attached or not.
    pub others: Counts,
}

impl Shares {
    /// Returns the counts of interfaces with these indices. They grow as long as no other interface needs the place.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn of(tables: &Tables, indices: &BTreeSet<u32>) -> Result<Self, Error> {
        let mut ledger = tables.counters.ledger()?;
        let mut readings = 0;
        loop {
            let shares = Self::by(tables, &ledger, indices)?;
            readings += 1;
            let now = tables.counters.ledger()?;
            if now == ledger || readings == READINGS {
                return Ok(shares);
            }
            // A command has changed the ledger meanwhile, so counts may belong to another interface.
            ledger = now;
        }
    }

    fn by(tables: &Tables, ledger: &Ledger, indices: &BTreeSet<u32>) -> Result<Self, Error> {
        let interfaces = indices.iter().map(|index| {
            let place = place_of(ledger, *index);
            Ok((*index, place.map(|place| counts_at(tables, ledger, place)).transpose()?))
        });
        Ok(Self { interfaces: interfaces.collect::<Result<_, Error>>()?, others: counts_at(tables, ledger, OTHERS)? })
    }
}

fn counts_at(tables: &Tables, ledger: &Ledger, place: u32) -> Result<Counts, Error> {
    let mut counts = tables.counters.at(place)?;
    if let Some(offset) = ledger.offsets.get(place as usize) {
        counts = counts.plus(offset);
    }
    if ledger.alone == place + 1 {
        counts = counts.plus(&tables.counters.undivided()?.minus(&ledger.settled));
    }
    Ok(counts)
}
