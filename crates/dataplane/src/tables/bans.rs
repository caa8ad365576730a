//! The table of bans in this process's memory. The program writes bans at any time, so each change is one exchange of a
//! word. See [`ratelimit_common::rules::ban`].

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering, fence},
};

use aya::maps::{Array, MapData};
use ratelimit_common::{
    identity::{class::ANY, source::Source},
    rules::{
        ban::{self, BanEnd, BanSet, Group, PLACES},
        rule::Rule,
    },
};

use crate::{Error, error::Tried as _, sys::mmap_array::Mapped};

/// The sets of bans, the filter in front of them, and the seed of their hash.
pub struct Bans {
    sets: Mapped<BanSet>,
    groups: Mapped<u64>,
    seed: [u64; 4],
}

impl Bans {
    /// Maps both maps for reading and writing.
    pub fn of(sets: &MapData, groups: &MapData, seed: [u64; 4]) -> Result<Self, Error> {
        Ok(Self { sets: Mapped::to_write(sets)?, groups: Mapped::to_write(groups)?, seed })
    }

    /// Returns all bans, ended or not, each source once. A place with an ended ban is free for another one.
    #[must_use]
    pub fn all(&self) -> Vec<(Source, Rule)> {
        let mut all = HashMap::new();
        for set in 0..self.sets.len() {
            for (end, source) in (0..PLACES).filter_map(|place| self.read(set, place)) {
                let latest = all.entry(source).or_insert(end);
                // Two CPUs that ban a source at the same time can take two places.
                if end.expires() > latest.expires() {
                    *latest = end;
                }
            }
        }
        all.into_iter().map(|(source, end)| (source, ban::rule(&source, end.expires()))).collect()
    }

    /// Returns whether a source is banned at `now`, in nanoseconds.
    pub fn has(&self, source: &Source, now: u64) -> bool {
        self.of_source(source).any(|(_, end)| end.is_in_force(now))
    }

    /// Ends the ban of a source now. Its places are free.
    pub fn lift(&self, source: &Source) {
        for (word, end) in self.of_source(source) {
            // If the program writes another source there, the exchange fails. If it prolongs the ban, it was refused
            // after the operator lifted the ban.
            let _ = word.compare_exchange(end.0, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Ends every ban sooner by so many nanoseconds.
    pub fn shorten(&self, by: u64) {
        for set in 0..self.sets.len() {
            for word in (0..PLACES).filter_map(|place| self.word(set, place)) {
                let end = BanEnd(word.load(Ordering::Relaxed));
                if end.has_source() {
                    // If the exchange fails, the program has just written a ban there.
                    let _ = word.compare_exchange(end.0, end.sooner(by).0, Ordering::AcqRel, Ordering::Relaxed);
                }
            }
        }
    }

    /// Writes a ban at `now`, in nanoseconds. Returns whether there is a place. No program may write bans meanwhile.
    pub fn insert(&self, source: &Source, expires: u64, now: u64) -> bool {
        let hash = source.hash(&self.seed);
        let (end, sets) = (BanEnd::new(hash, expires), ban::sets(hash).map(|set| set as usize));
        let free = |set: usize| {
            let words = (0..PLACES).filter_map(move |place| Some((place, self.word(set, place)?)));
            words.filter(|(_, word)| !BanEnd(word.load(Ordering::Relaxed)).is_in_force(now))
        };
        let [first, second] = sets.map(|set| free(set).count());
        let set = if second > first { sets[1] } else { sets[0] };
        let Some((place, word)) = free(set).next() else { return false };
        if let Some(entry) = self.sets.place(set) {
            // SAFETY: the entry lies within the mapping, and no other process writes it.
            unsafe { (*entry).sources[place] = *source };
        }
        word.store(end.0, Ordering::Release);
        if let Some(group) = self.groups.place(ban::group(source.of_class(ANY).hash(&self.seed)) as usize) {
            // SAFETY: as above.
            let group = unsafe { AtomicU64::from_ptr(group) };
            let seen = Group(group.load(Ordering::Relaxed));
            group.store(seen.with(end, set != sets[0], now).unwrap_or(seen).0, Ordering::Release);
        }
        true
    }

    /// Returns the places with a ban of this source.
    fn of_source(&self, source: &Source) -> impl Iterator<Item = (&AtomicU64, BanEnd)> {
        let sets = ban::sets(source.hash(&self.seed)).map(|set| set as usize);
        let places = sets.into_iter().flat_map(|set| (0..PLACES).map(move |place| (set, place)));
        let source = *source;
        places.filter_map(move |(set, place)| {
            let (end, found) = self.read(set, place)?;
            (found == source).then_some((self.word(set, place)?, end))
        })
    }

    /// Returns the ban in a place, if there is one. Tries again while the program changes it.
    fn read(&self, set: usize, place: usize) -> Option<(BanEnd, Source)> {
        let (word, entry) = (self.word(set, place)?, self.sets.place(set)?);
        loop {
            let end = BanEnd(word.load(Ordering::Acquire));
            if !end.has_source() {
                return None;
            }
            // SAFETY: the entry lies within the mapping, and any bytes are a source; volatile because programs write it.
            let source = unsafe { (&raw const (*entry).sources[place]).read_volatile() };
            fence(Ordering::Acquire);
            if word.load(Ordering::Relaxed) == end.0 {
                return Some((end, source));
            }
        }
    }

    fn word(&self, set: usize, place: usize) -> Option<&AtomicU64> {
        let entry = self.sets.place(set)?;
        // SAFETY: the word lies within the mapping, which lives as long as this, and all accesses are atomic.
        Some(unsafe { AtomicU64::from_ptr(&raw mut (*entry).ends[place]) })
    }
}

/// Returns the ban of a source, ended or not.
pub fn of_source(map: &Array<MapData, BanSet>, source: &Source, seed: &[u64; 4]) -> Result<Option<Rule>, Error> {
    let mut latest = None;
    for set in ban::sets(source.hash(seed)) {
        let set = map.get(&set, 0).tried("cannot read a ban")?;
        let places = set.ends.iter().zip(&set.sources).filter(|(_, found)| *found == source);
        let ends = places.map(|(end, _)| BanEnd(*end)).filter(|end| end.has_source()).map(BanEnd::expires);
        latest = latest.max(ends.max());
    }
    Ok(latest.map(|expires| ban::rule(source, expires)))
}
