//! What became of the packets of each interface.
//!
//! With one interface attached, the program counts in one map and asks for no interface; those counts are the one's. Before a second one is attached,
//! a program takes its place that counts in another map by interface, until no more than one is left.

use std::collections::BTreeSet;

use ratelimit_common::{
    maps::{
        control::FEATURE_INTERFACES,
        interface_counters::{Counts, Ledger, OTHERS, TRIES},
    },
    reason::{Count, REASONS},
};

use crate::dataplane::{
    Error, Instance, attach::attachment::Attachments, error::Tried as _, sys::bpf::Link, tables::open::Tables,
};

/// Readings of the ledger until two in a row say the same.
const READINGS: usize = 5;

/// What became of packets, by whose they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    /// The interfaces that were asked for, each with its counts; none where it has no place of its own.
    pub interfaces: Vec<(u32, Option<Counts>)>,
    /// All interfaces without a place together, attached or not.
    pub others: Counts,
}

impl Shares {
    /// The shares of interfaces with these indices. Each grows as long as no other interface needs its place.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn of(tables: &Tables, indices: &BTreeSet<u32>) -> Result<Self, Error> {
        let mut ledger = tables.ledger()?;
        let mut readings = 0;
        loop {
            let shares = Self::by(tables, &ledger, indices)?;
            readings += 1;
            let now = tables.ledger()?;
            if now == ledger || readings == READINGS {
                return Ok(shares);
            }
            // A command has settled something meanwhile, and counts may have been taken for another's.
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

impl Instance {
    /// Makes the program count by interface if there are several with those that are about to be attached, and by none if there are not.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] and whatever else a program is refused with; what was attached is counted as before then.
    pub fn expect_interfaces(&mut self, coming: impl IntoIterator<Item = u32>) -> Result<(), Error> {
        let mut expected = self.attachments.indices()?;
        expected.extend(coming);
        book(&mut self.tables, &expected)?;
        if expected.len() > 1 {
            return self.look_at(FEATURE_INTERFACES);
        }
        self.spare(FEATURE_INTERFACES);
        Ok(())
    }

    /// The same where interfaces were detached. Where it fails, the running program does too much and nothing wrong.
    pub fn forget_interfaces(&mut self) {
        let _ = self.expect_interfaces([]);
    }

    /// Settles whose counts are whose before another program is put back.
    pub(crate) fn settle_interfaces(&mut self) {
        let _ = self.attachments.indices().and_then(|attached| book(&mut self.tables, &attached));
    }
}

/// Gives each of these interfaces a place as far as there is one, and settles what was counted for another that was alone.
fn book(tables: &mut Tables, expected: &BTreeSet<u32>) -> Result<(), Error> {
    let before = tables.ledger()?;
    let mut ledger = before.clone();
    for index in expected {
        if place_of(&ledger, *index).is_some() {
            continue;
        }
        let places = || (0..TRIES).map(|attempt| Ledger::place(*index, attempt));
        let owner = |place: &u32| ledger.interfaces[*place as usize];
        let free = places().find(|place| owner(place) == 0);
        // One that is attached keeps its place; what was detached longer ago is nobody's concern any more.
        let Some(place) = free.or_else(|| places().find(|place| !expected.contains(&owner(place)))) else { continue };
        if ledger.alone == place + 1 {
            settle(tables, &mut ledger, 0)?;
        }
        // The new one begins at nothing; the sum of all goes on.
        ledger.offsets[place as usize] = Counts::default().minus(&tables.share(place)?);
        ledger.interfaces[place as usize] = *index;
    }
    if let (Some(index), 1) = (expected.first(), expected.len()) {
        let alone = place_of(&ledger, *index).unwrap_or(OTHERS) + 1;
        if ledger.alone != alone {
            settle(tables, &mut ledger, alone)?;
        }
    }
    if ledger == before { Ok(()) } else { tables.set_ledger(&ledger) }
}

/// Gives whoever was alone what was counted meanwhile. Nothing is counted there now: whoever was alone is detached, or is not alone any more.
fn settle(tables: &Tables, ledger: &mut Ledger, next: u32) -> Result<(), Error> {
    let counted = tables.undivided()?;
    if let Some(offset) = ledger.alone.checked_sub(1).and_then(|place| ledger.offsets.get_mut(place as usize)) {
        *offset = offset.plus(&counted.minus(&ledger.settled));
    }
    ledger.settled = counted;
    ledger.alone = next;
    Ok(())
}

fn place_of(ledger: &Ledger, index: u32) -> Option<u32> {
    let attempt = (0..TRIES).find(|attempt| index != 0 && ledger.has(index, *attempt))?;
    Some(Ledger::place(index, attempt))
}

fn counts_at(tables: &Tables, ledger: &Ledger, place: u32) -> Result<Counts, Error> {
    let mut counts = tables.share(place)?;
    if let Some(offset) = ledger.offsets.get(place as usize) {
        counts = counts.plus(offset);
    }
    if ledger.alone == place + 1 {
        counts = counts.plus(&tables.undivided()?.minus(&ledger.settled));
    }
    Ok(counts)
}

impl Attachments {
    /// Indices of the interfaces that are still there.
    pub(crate) fn indices(&self) -> Result<BTreeSet<u32>, Error> {
        let links = self.pins()?.into_iter().map(|pin| Ok(Link::from_pin(&pin)?.interface));
        links.filter_map(Result::transpose).collect()
    }
}

impl Tables {
    /// What became of all packets.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn all_counts(&self) -> Result<Counts, Error> {
        let (mut counts, ledger) = (self.undivided()?, self.ledger()?);
        let used = (0..).zip(&ledger.interfaces).filter(|(_, interface)| **interface != 0).map(|(place, _)| place);
        for place in used.chain([OTHERS]) {
            counts = counts.plus(&self.share(place)?);
        }
        Ok(counts)
    }

    /// What was counted while interfaces were attached alone.
    fn undivided(&self) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        let Counts { done, shadow } = &mut counts;
        for (index, count) in (0..2 * REASONS as u32).zip(done.iter_mut().chain(shadow)) {
            let cpus = self.counters.get(&index, 0).tried("cannot read the counters")?;
            *count = cpus.iter().fold(Count::default(), |sum, cpu| Count {
                packets: sum.packets + cpu.packets,
                bytes: sum.bytes + cpu.bytes,
            });
        }
        Ok(counts)
    }

    fn share(&self, place: u32) -> Result<Counts, Error> {
        let cpus = self.shares.get(&place, 0).tried("cannot read the counters of an interface")?;
        Ok(cpus.iter().fold(Counts::default(), Counts::plus))
    }

    fn ledger(&self) -> Result<Box<Ledger>, Error> {
        self.ledger.get(&0, 0).map(Box::new).tried("cannot read which interface has which counts")
    }

    fn set_ledger(&mut self, ledger: &Ledger) -> Result<(), Error> {
        self.ledger.set(0, ledger, 0).tried("cannot write which interface has which counts")
    }
}
