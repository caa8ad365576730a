//! One set of the table of bans. CPUs share it, and change each place by exchanges of its word.

use ratelimit_common::{
    identity::source::Source,
    rules::ban::{self, BanEnd, PLACES},
};

use crate::{
    bpf::atomic::Word,
    maps::exchange::{Charge, FEW_TRIES, exchange},
};

/// A [`ban::BanSet`], which the CPUs share.
#[repr(transparent)]
pub struct BanSet(ban::BanSet);

/// A source as words, as it lies in memory.
type Words = [Word; size_of::<Source>() / size_of::<u64>()];

impl BanSet {
    #[inline(always)]
    fn end(&self, place: u32) -> &Word {
        Word::of(&self.0.ends[place as usize % PLACES])
    }

    #[inline(always)]
    fn source(&self, place: u32) -> &Words {
        words(&self.0.sources[place as usize % PLACES])
    }

    /// Returns the word of the ban of this source that is in force.
    #[inline(always)]
    pub(super) fn find(&self, source: &Source, hash: u64, now: u64) -> Option<&Word> {
        for place in 0..PLACES as u32 {
            let end = BanEnd(self.end(place).load());
            if end.may_be_of(hash) && end.is_in_force(now) && are_equal(self.source(place), words(source)) {
                return Some(self.end(place));
            }
        }
        None
    }

    /// Writes a ban into a place that none in force has. Returns whether there is one.
    #[inline(always)]
    fn take(&self, source: &Source, end: BanEnd, now: u64) -> bool {
        let writing = BanEnd::being_written(now);
        for place in 0..PLACES as u32 {
            let seen = self.end(place).load();
            // The exchanges keep every reader from a source that belongs to another end.
            if !BanEnd(seen).is_in_force(now) && self.end(place).compare_exchange(seen, writing.0).is_ok() {
                for (to, from) in self.source(place).iter().zip(words(source)) {
                    to.store(from.load());
                }
                return self.end(place).compare_exchange(writing.0, end.0).is_ok();
            }
        }
        false
    }

    /// Prolongs the ban of this source, or writes it into a free place. Returns whether it has a place.
    #[inline(always)]
    pub(super) fn put(&self, source: &Source, hash: u64, end: BanEnd, now: u64) -> bool {
        match self.find(source, hash, now) {
            Some(word) => exchange::<FEW_TRIES>(word, |seen| end.if_later_than(seen)) != Charge::Contended,
            None => self.take(source, end, now),
        }
    }
}

/// Returns the words of a source.
#[inline(always)]
fn words(source: &Source) -> &Words {
    const { assert!(size_of::<Words>() == size_of::<Source>() && align_of::<Source>() == align_of::<Words>()) };
    // SAFETY: as many bytes of the same alignment, and any bytes are words.
    unsafe { &*core::ptr::from_ref(source).cast() }
}

#[inline(always)]
fn are_equal([a, b, c]: &Words, [x, y, z]: &Words) -> bool {
    (a.load() ^ x.load()) | (b.load() ^ y.load()) | (c.load() ^ z.load()) == 0
}
