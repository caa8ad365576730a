//! The table of bans, and the filter in front of it. See [`ratelimit_common::rules::ban`]. Who is banned belongs in
//! `overlimit`.

mod set;

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::{
    identity::{class::ANY, source::Source},
    maps::{control::Control, names},
    rules::ban::{self, BanEnd, Group},
};

use self::set::BanSet;
use crate::{
    bpf::{atomic::Word, map_flags::ALIGNED, settings, verifier::given},
    maps::{
        control,
        exchange::{FEW_TRIES, exchange},
    },
};

/// See [`names::BANS`].
#[btf_map]
pub static BANS: Array<BanSet, { names::BAN_SETS as usize }, ALIGNED> = Array::new();

/// See [`names::BAN_FILTER`].
#[btf_map]
pub static BAN_FILTER: Array<Word, { names::BAN_GROUPS as usize }, ALIGNED> = Array::new();

/// Returns the group of a source with this hash.
#[inline(always)]
#[must_use]
pub fn group(source: &Source, hash: u64, control: &Control) -> Option<&'static Word> {
    let is_any = source.class == u16::from(ANY);
    BAN_FILTER.get(ban::group(if is_any { hash } else { source.of_class(ANY).hash(&control.seed) }))
}

/// Returns the time at which the ban of a source ends, in nanoseconds; 0 if none is in force.
#[inline(always)]
#[must_use]
pub fn end(source: &Source, now: u64) -> u64 {
    let Some(control) = control::get().filter(|_| settings::has_bans()) else { return 0 };
    let hash = source.hash(&control.seed);
    group(source, hash, control).map_or(0, |group| end_in(source, hash, Group(group.load()), now))
}

/// Returns the same for a source with this hash and this group.
#[inline(always)]
#[must_use]
pub fn end_in(source: &Source, hash: u64, group: Group, now: u64) -> u64 {
    if group.may_have_bans(now) { end_of_ban(source, hash, u32::from(group.uses_second_sets()), now) } else { 0 }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn end_of_ban(source: *const Source, hash: u64, uses_second: u32, now: u64) -> u64 {
    let Some(source) = given(source).filter(|_| settings::has_bans()) else { return 0 };
    let [first, second] = ban::sets(hash);
    let mut found = BANS.get(first).and_then(|set| set.find(source, hash, now));
    if found.is_none() && uses_second != 0 {
        found = BANS.get(second).and_then(|set| set.find(source, hash, now));
    }
    found.map_or(0, |word| BanEnd(word.load()).expires())
}

/// Bans a source until that time. Returns whether the table has a place.
#[inline(always)]
#[must_use]
pub fn insert(source: &Source, expires: u64, now: u64) -> bool {
    insert_ban(source, expires, now) != 0
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn insert_ban(source: *const Source, expires: u64, now: u64) -> u32 {
    if !settings::has_bans() {
        return 0;
    }
    let (Some(source), Some(control)) = (given(source), control::get()) else { return 0 };
    let hash = source.hash(&control.seed);
    let end = BanEnd::new(hash, expires);
    let [first, second] = ban::sets(hash);
    let (Some(first), Some(second)) = (BANS.get(first), BANS.get(second)) else { return 0 };
    let (has_place, is_in_second) = if let Some(word) = first.find(source, hash, now) {
        (prolong(word, end), false)
    } else if let Some(word) = second.find(source, hash, now) {
        (prolong(word, end), true)
    } else {
        let is_in_second = second.used(now) < first.used(now);
        (if is_in_second { second } else { first }.take(source, end, now), is_in_second)
    };
    if !has_place {
        return 0;
    }
    let Some(group) = group(source, hash, control) else { return 0 };
    // Without its group, no packet would find the ban. The source's next refusal tries again.
    let next = |seen| Group(seen).with(end, is_in_second, now).map(|group| group.0);
    u32::from(exchange::<FEW_TRIES>(group, next) || next(group.load()).is_none())
}

/// Moves the end of a ban to a later time. Returns whether it ends no sooner.
#[inline(always)]
fn prolong(word: &Word, end: BanEnd) -> bool {
    let next = |seen| end.if_later_than(seen);
    exchange::<FEW_TRIES>(word, next) || next(word.load()).is_none()
}
