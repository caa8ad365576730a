//! Packets and bytes by reason, with the ledger that assigns them to interfaces.
//!
//! With one interface attached, the program counts in one map without a look at the interface. With several, it counts
//! in another map by interface. The ledger says which interface has which place there, and to which one the first map's
//! counts belong.

use aya::maps::{Array, MapData, PerCpuArray};
use ratelimit_common::{
    maps::interface_counters::{Counts, Ledger, OTHERS, TRIES},
    reason::{Count, REASONS},
};

use crate::{Error, error::Tried as _, tables::table::Table};

/// The maps that count packets.
pub struct Counters {
    /// Reason → counts while one interface is attached, per CPU.
    pub undivided: Table<PerCpuArray<MapData, Count>>,
    /// Place of an interface → counts, per CPU.
    pub by_interface: Table<PerCpuArray<MapData, Counts>>,
    /// Which interface has which place, and which one has the undivided counts.
    pub ledger: Table<Array<MapData, Ledger>>,
}

impl Counters {
    /// Returns what was counted for a reason while one interface was attached, of each CPU.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn of_reason(&self, reason: u32) -> Result<Vec<Count>, Error> {
        Ok(self.undivided.open()?.get(&reason, 0).tried("cannot read the counters")?.to_vec())
    }

    /// Returns the counts of all packets.
    pub fn all(&self) -> Result<Counts, Error> {
        let (mut counts, ledger) = (self.undivided()?, self.ledger()?);
        let used = (0..).zip(&ledger.interfaces).filter(|(_, interface)| **interface != 0).map(|(place, _)| place);
        for place in used.chain([OTHERS]) {
            counts = counts.plus(&self.at(place)?);
        }
        Ok(counts)
    }

    /// Returns what was counted while one interface was attached.
    pub fn undivided(&self) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        let Counts { done, shadow } = &mut counts;
        for (index, count) in (0..2 * REASONS as u32).zip(done.iter_mut().chain(shadow)) {
            let cpus = self.undivided.open()?.get(&index, 0).tried("cannot read the counters")?;
            *count = cpus.iter().fold(Count::default(), |sum, cpu| Count {
                packets: sum.packets + cpu.packets,
                bytes: sum.bytes + cpu.bytes,
            });
        }
        Ok(counts)
    }

    /// Returns what was counted in one place.
    pub fn at(&self, place: u32) -> Result<Counts, Error> {
        let cpus = self.by_interface.open()?.get(&place, 0).tried("cannot read the counters of an interface")?;
        Ok(cpus.iter().fold(Counts::default(), Counts::plus))
    }

    /// Returns the ledger. It is too large for the stack.
    pub fn ledger(&self) -> Result<Box<Ledger>, Error> {
        self.ledger.open()?.get(&0, 0).map(Box::new).tried("cannot read the ledger of interface counters")
    }

    /// Replaces the ledger.
    pub fn set_ledger(&mut self, ledger: &Ledger) -> Result<(), Error> {
        self.ledger.open_mut()?.set(0, ledger, 0).tried("cannot write the ledger of interface counters")
    }
}

/// Returns the place of an interface, if the ledger has one for it.
pub fn place_of(ledger: &Ledger, index: u32) -> Option<u32> {
    let attempt = (0..TRIES).find(|attempt| index != 0 && ledger.has(index, *attempt))?;
    Some(Ledger::place(index, attempt))
}
