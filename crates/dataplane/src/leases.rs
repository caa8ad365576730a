//! Leases: what a fleet leaves sources of their limits on this host. One process writes them, and the program charges
//! them.

use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::IterableMap as _;
use ratelimit_common::{
    cells::{
        bucket_filter::LEASED,
        cell::{self, Cell},
    },
    fleet::lease::{self, Lease, WAYS},
    maps::control::FEATURE_FRONT,
};

use crate::{Error, sys::mmap_array::Mapped, tables::open::Tables};

/// The leases of an instance. A resize replaces both maps, so they are opened again afterwards.
pub struct Leases {
    places: Mapped<Lease>,
    /// None without cells.
    cells: Option<Mapped<Cell>>,
}

/// A lease as it is granted.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    /// Hash of the source.
    pub hash: u64,
    /// Part of the limit that the source gets here, from 0 to 1.
    pub share: f64,
    /// Time at which it ends, in nanoseconds of the program's clock.
    pub end: u64,
    /// States of both limits, if the lease is new: the time until which each owes.
    pub states: [u64; 2],
}

impl Leases {
    /// Opens the leases of an instance whose program has them.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn open(tables: &Tables) -> Result<Self, Error> {
        let has_cells = tables.control()?.features & FEATURE_FRONT != 0;
        let cells = if has_cells { Some(Mapped::to_write(tables.front.open()?.map())?) } else { None };
        Ok(Self { places: Mapped::to_write(tables.leases.open()?.map())?, cells })
    }

    /// Returns whether these are the leases of this instance.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn are_of(&self, tables: &Tables) -> Result<bool, Error> {
        let front = tables.front.open()?.map();
        let has_cells = self.cells.as_ref().map_or(Ok(true), |cells| cells.is_of(front))?;
        Ok(has_cells && self.places.is_of(tables.leases.open()?.map())?)
    }

    /// Grants or renews a lease. One that has ended begins anew. Returns whether there was a place for it.
    #[must_use]
    pub fn grant(&self, grant: &Grant, now: u64) -> bool {
        let Some(words) = self.held(grant.hash).or_else(|| self.free(grant.hash, now)) else { return false };
        let is_running = words.source.load(Ordering::Acquire) == grant.hash && words.end.load(Ordering::Acquire) > now;
        if !is_running {
            // No packet finds the place until all is written.
            words.end.store(0, Ordering::Release);
            words.source.store(grant.hash, Ordering::Release);
            for (word, state) in words.states.into_iter().zip(grant.states) {
                word.store(state, Ordering::Release);
            }
            words.counts.into_iter().for_each(|word| word.store(0, Ordering::Release));
        }
        words.multiplier.store(lease::multiplier(grant.share), Ordering::Release);
        words.end.store(grant.end, Ordering::Release);
        self.mark(grant.hash);
        true
    }

    /// Returns what the program has written about a source that has or had a lease, until another one gets its place.
    #[must_use]
    pub fn get(&self, hash: u64) -> Option<Lease> {
        self.index(hash).and_then(|index| self.places.get(index))
    }

    /// Ends the lease of a source.
    pub fn end(&self, hash: u64) {
        if let Some(words) = self.held(hash) {
            words.end.store(0, Ordering::Release);
        }
    }

    fn indices(&self, hash: u64) -> impl Iterator<Item = usize> {
        let first = lease::first_place(hash, self.places.len() as u32);
        (first..first + WAYS).map(|index| index as usize)
    }

    /// Returns the index of the place that a source has.
    fn index(&self, hash: u64) -> Option<usize> {
        let holds =
            |index: &usize| self.words(*index).is_some_and(|words| words.source.load(Ordering::Acquire) == hash);
        self.indices(hash).find(holds)
    }

    fn held(&self, hash: u64) -> Option<Words<'_>> {
        self.index(hash).and_then(|index| self.words(index))
    }

    /// Returns a place without a lease at `now`.
    fn free(&self, hash: u64, now: u64) -> Option<Words<'_>> {
        let mut places = self.indices(hash).filter_map(|index| self.words(index));
        places.find(|words| words.end.load(Ordering::Acquire) <= now)
    }

    /// Marks the cell of a source. A filter that begins anew with an epoch loses the mark.
    fn mark(&self, hash: u64) {
        let Some(cells) = &self.cells else { return };
        let Some(cell) = cells.place(cell::index(hash, cells.len() as u32) as usize) else { return };
        // SAFETY: the words lie within the mapping, aligned, and all accesses are atomic.
        let words = unsafe { (&raw mut (*cell).filters).cast::<u64>() };
        for number in 0..2 {
            // SAFETY: as above.
            let word = unsafe { AtomicU64::from_ptr(words.add(number)) };
            if word.load(Ordering::Acquire) & LEASED == 0 {
                word.fetch_or(LEASED, Ordering::AcqRel);
            }
        }
    }

    fn words(&self, index: usize) -> Option<Words<'_>> {
        let place = self.places.place(index)?;
        // SAFETY: the words lie within the mapping, which outlives the references, aligned, and all accesses are atomic.
        unsafe {
            Some(Words {
                source: AtomicU64::from_ptr(&raw mut (*place).source),
                end: AtomicU64::from_ptr(&raw mut (*place).end),
                multiplier: AtomicU64::from_ptr(&raw mut (*place).multiplier),
                states: [AtomicU64::from_ptr(&raw mut (*place).packets), AtomicU64::from_ptr(&raw mut (*place).second)],
                counts: [
                    AtomicU64::from_ptr(&raw mut (*place).admitted),
                    AtomicU64::from_ptr(&raw mut (*place).refused),
                    AtomicU64::from_ptr(&raw mut (*place).refused_bytes),
                ],
            })
        }
    }
}

/// The words of one place.
struct Words<'a> {
    source: &'a AtomicU64,
    end: &'a AtomicU64,
    multiplier: &'a AtomicU64,
    states: [&'a AtomicU64; 2],
    counts: [&'a AtomicU64; 3],
}
