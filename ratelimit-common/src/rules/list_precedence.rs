//! Precedence of lists: which of the lists with a source applies. The kernel side and the user side both run it.
//! Precedence between lists and rules belongs in `precedence`.

use crate::{
    identity::{class::ANY, source::Source},
    rules::{
        list::{LIST_SLOTS, List, ListedPrefix, Slots},
        rule_match::{DEFAULT_DEPTH, LISTED_DEPTH, Match},
    },
};

/// Access to the entries of lists. Each function may return slots that are not in force.
pub trait Lists {
    /// Error of an access.
    type Error;

    /// Returns the slots of the lists that have exactly this address, if it is one.
    ///
    /// # Errors
    ///
    /// Fails if the lists cannot be read.
    fn address(&self, source: &Source) -> Result<Slots, Self::Error>;

    /// Returns the entry of the longest prefix around a source that has at most `bits` bits.
    ///
    /// # Errors
    ///
    /// Fails if the lists cannot be read.
    fn prefix(&self, source: &Source, bits: u8) -> Result<Option<ListedPrefix>, Self::Error>;

    /// Returns the match of the list that applies among these slots: [`first_list`].
    ///
    /// # Errors
    ///
    /// Fails if the lists cannot be read.
    fn first(&self, slots: Slots, prefix: u8) -> Result<Match, Self::Error>;

    /// Returns whether this host [spares](crate::rules::spared) a source. It is asked only where a list denies.
    ///
    /// # Errors
    ///
    /// Fails if the spared prefixes cannot be read.
    fn is_spared(&self, source: &Source) -> Result<bool, Self::Error>;
}

/// Returns the match of the lists in these slots for a source; [`Match::NONE`] if none has it, or if one denies it and it
/// is spared.
///
/// # Errors
///
/// Fails if the lists cannot be read.
#[inline(always)]
pub fn of_lists<L: Lists>(lists: &L, slots: Slots, source: &Source) -> Result<Match, L::Error> {
    // Lists are about all packets of a source.
    let source = source.of_class(ANY);
    let mut found = lists.first(lists.address(&source)? & slots, source.prefix)?;
    let mut bits = source.prefix;
    // Each list has at most one entry around a source, because it leaves out what lies inside another entry.
    for _ in 0..LIST_SLOTS {
        if found.is_listed() {
            break;
        }
        let Some(entry) = lists.prefix(&source, bits)? else { break };
        let first = lists.first(entry.slots & slots, entry.prefix as u8)?;
        if first.is_listed() || found == Match::NONE {
            found = first;
        }
        let Some(fewer) = (entry.prefix as u8).checked_sub(1) else { break };
        bits = fewer;
    }
    let is_passed_over = found.is_listed() && lists.is_spared(&source)?;
    Ok(if is_passed_over { Match::NONE } else { found })
}

/// Returns the match of the list that applies among these slots at `now`, for an entry of so many bits; [`Match::NONE`]
/// if all of them have ended.
///
/// # Errors
///
/// Stops at the first error of `list`, and returns it.
#[inline(always)]
pub fn first_list<'a, E>(
    mut slots: Slots,
    prefix: u8,
    now: u64,
    mut list: impl FnMut(u32) -> Result<Option<&'a List>, E>,
) -> Result<Match, E> {
    let (mut found, mut lowest) = (Match::NONE, u64::MAX);
    for _ in 0..LIST_SLOTS {
        if slots == 0 {
            break;
        }
        let slot = slots.trailing_zeros();
        slots &= slots - 1;
        if let Some(list) = list(slot)?.filter(|list| !list.is_over(now) && list.rank < lowest) {
            let listed = if list.denies() { LISTED_DEPTH } else { 0 };
            found = Match::new(list.policy, list.expires, listed + DEFAULT_DEPTH + 1 + u64::from(prefix));
            lowest = list.rank;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
