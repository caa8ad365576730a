//! Looks up the lists that have a source, by the precedence that the user side runs too.

use core::convert::Infallible;

use ratelimit_common::{
    identity::source::Source,
    maps::control::Control,
    rules::{
        list::{ListedPrefix, Slots},
        list_precedence::{self, Lists},
        rule_match::Match,
    },
};

use crate::{
    bpf::{
        settings,
        verifier::{given, key},
    },
    maps::{
        control,
        rules::{lists, spared},
    },
};

/// The lists in the maps.
struct Maps {
    /// Time of the packet in nanoseconds.
    now: u64,
}

impl Lists for Maps {
    type Error = Infallible;

    #[inline(always)]
    fn address(&self, source: &Source) -> Result<Slots, Infallible> {
        Ok(lists::address(source))
    }

    #[inline(always)]
    fn prefix(&self, source: &Source, bits: u8) -> Result<Option<ListedPrefix>, Infallible> {
        Ok(lists::prefix(source, bits))
    }

    #[inline(always)]
    fn first(&self, slots: Slots, prefix: u8) -> Result<Match, Infallible> {
        Ok(if slots == 0 { Match::NONE } else { Match(first_list(slots, u32::from(prefix), self.now)) })
    }

    #[inline(always)]
    fn is_spared(&self, source: &Source) -> Result<bool, Infallible> {
        Ok(spared::has(source))
    }
}

/// Returns the match of the lists that are in force in a generation of the rules.
#[inline(always)]
pub(super) fn find(source: &Source, control: &Control, generation: u32, now: u64) -> Match {
    if !settings::is_on(&settings::LISTS_ON) {
        return Match::NONE;
    }
    match control::lists(control, generation) {
        0 => Match::NONE,
        slots => Match(find_list(source, slots, now)),
    }
}

/// A global function, since the walk over prefixes is long.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn find_list(source: *const Source, slots: Slots, now: u64) -> u64 {
    let Some(source) = given(source).filter(|_| settings::is_on(&settings::LISTS_ON)) else { return Match::NONE.0 };
    let Ok(found) = list_precedence::of_lists(&Maps { now }, slots, &key(source));
    found.0
}

/// A global function, since each prefix around a source calls it.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn first_list(slots: Slots, prefix: u32, now: u64) -> u64 {
    if !settings::is_on(&settings::LISTS_ON) {
        return Match::NONE.0;
    }
    let Ok(found) = list_precedence::first_list::<Infallible>(slots, prefix as u8, now, |slot| Ok(lists::slot(slot)));
    found.0
}
