//! Finds the lists that have a source, by the precedence that the program runs too.

use ratelimit_common::{
    identity::{
        class::ANY,
        source::{IPV4, Source},
    },
    rules::{
        list::{LIST_SLOTS, List, ListedPrefix, Slots},
        list_precedence::{self, Lists},
        rule_match::Match,
    },
};

use crate::{
    Error,
    tables::{list_maps::ListMaps, open::Tables, spared},
};

/// The lists in the pinned maps.
struct Maps<'a> {
    entries: &'a ListMaps,
    lists: &'a [List],
    now: u64,
    /// Where spared prefixes are looked up. None passes over them.
    spared: Option<&'a Tables>,
}

impl Lists for Maps<'_> {
    type Error = Error;

    fn address(&self, source: &Source) -> Result<Slots, Error> {
        let is_address = source.family == IPV4 && source.prefix == 32;
        if is_address { self.entries.address(source.first_word()) } else { Ok(0) }
    }

    fn prefix(&self, source: &Source, bits: u8) -> Result<Option<ListedPrefix>, Error> {
        self.entries.prefix(source, bits)
    }

    fn first(&self, slots: Slots, prefix: u8) -> Result<Match, Error> {
        list_precedence::first_list(slots, prefix, self.now, |slot| Ok(self.lists.get(slot as usize)))
    }

    fn is_spared(&self, source: &Source) -> Result<bool, Error> {
        self.spared.map_or(Ok(false), |tables| spared::has(tables, source))
    }
}

/// Returns the match of the lists for a source; [`Match::NONE`] if none has it. During a change of lists, these are the
/// lists that it will put in force.
pub fn of_source(tables: &Tables, source: &Source, now: u64) -> Result<Match, Error> {
    match tables.control()?.next_lists() {
        0 => Ok(Match::NONE),
        slots => {
            let (entries, lists) = (&tables.lists, tables.lists.slots()?);
            list_precedence::of_lists(
                &Maps { entries, lists: &lists, now, spared: Some(tables) },
                slots,
                &source.of_class(ANY),
            )
        }
    }
}

/// Returns the slot of each list that has a source, with its match, also where the source is spared.
pub fn each(tables: &Tables, source: &Source, now: u64) -> Result<Vec<(u32, Match)>, Error> {
    let slots = tables.control()?.next_lists();
    if slots == 0 {
        return Ok(Vec::new());
    }
    let (entries, lists, source) = (&tables.lists, tables.lists.slots()?, source.of_class(ANY));
    let maps = Maps { entries, lists: &lists, now, spared: None };
    let mut found = Vec::new();
    for slot in (0..LIST_SLOTS).filter(|slot| slots >> slot & 1 != 0) {
        let own = list_precedence::of_lists(&maps, 1 << slot, &source)?;
        found.extend((own != Match::NONE).then_some((slot, own)));
    }
    Ok(found)
}
