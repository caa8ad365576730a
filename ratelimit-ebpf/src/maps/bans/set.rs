//! One set of the table of bans. CPUs share it, and change each place by exchanges of its word.
//!
//! Each walk over the places is a global function, so the verifier does not combine its paths with those of another.

use ratelimit_common::{
    identity::source::Source,
    rules::ban::{self, BanEnd, PLACES},
};

use crate::bpf::{atomic::Word, settings, verifier::given};

/// A [`ban::BanSet`], which the CPUs share.
#[repr(transparent)]
pub struct BanSet(ban::BanSet);

/// A source as words, as it lies in memory.
type Words = [Word; size_of::<Source>() / size_of::<u64>()];

impl BanSet {
    /// Returns the word of the ban of this source that is in force.
    #[inline(always)]
    pub(super) fn find(&self, source: &Source, hash: u64, now: u64) -> Option<&Word> {
        let found = place_of_ban(self, source, hash, now);
        (found != 0).then(|| self.end(found - 1))
    }

    /// Returns the number of places with a ban in force.
    #[inline(always)]
    pub(super) fn used(&self, now: u64) -> u32 {
        count_bans(self, now)
    }

    /// Writes a ban into a place that none in force has. Returns whether there is one.
    #[inline(always)]
    pub(super) fn take(&self, source: &Source, end: BanEnd, now: u64) -> bool {
        write_ban(self, source, end.0, now) != 0
    }

    #[inline(always)]
    fn end(&self, place: u32) -> &Word {
        Word::of(&self.0.ends[place as usize % PLACES])
    }

    #[inline(always)]
    fn source(&self, place: u32) -> &Words {
        words(&self.0.sources[place as usize % PLACES])
    }
}

/// Returns the place of a ban plus 1; 0 if there is none.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn place_of_ban(set: *const BanSet, source: *const Source, hash: u64, now: u64) -> u32 {
    if !settings::has_bans() {
        return 0;
    }
    let (Some(set), Some(source)) = (given(set), given(source)) else { return 0 };
    for place in 0..PLACES as u32 {
        let end = BanEnd(set.end(place).load());
        if end.may_be_of(hash) && end.is_in_force(now) && are_equal(set.source(place), words(source)) {
            return place + 1;
        }
    }
    0
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn count_bans(set: *const BanSet, now: u64) -> u32 {
    if !settings::has_bans() {
        return 0;
    }
    let Some(set) = given(set) else { return 0 };
    (0..PLACES as u32).map(|place| u32::from(BanEnd(set.end(place).load()).is_in_force(now))).sum()
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn write_ban(set: *const BanSet, source: *const Source, end: u64, now: u64) -> u32 {
    if !settings::has_bans() {
        return 0;
    }
    let (Some(set), Some(source)) = (given(set), given(source)) else { return 0 };
    let writing = BanEnd::being_written(now);
    for place in 0..PLACES as u32 {
        let seen = set.end(place).load();
        // The exchanges keep every reader from a source that belongs to another end.
        if !BanEnd(seen).is_in_force(now) && set.end(place).compare_exchange(seen, writing.0).is_ok() {
            for (to, from) in set.source(place).iter().zip(words(source)) {
                to.store(from.load());
            }
            return u32::from(set.end(place).compare_exchange(writing.0, end).is_ok());
        }
    }
    0
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
