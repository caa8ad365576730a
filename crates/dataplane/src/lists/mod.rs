//! Named lists: sets, replaces, deletes and reads them. Which of several lists applies belongs in `rules`.
//!
//! A command writes the bit of a slot that is not in force into the entries of a list. Then it plans the slots of the next
//! generation, and raises the generation. This one write switches the list. Entries that only ended lists have are removed
//! after a grace period, when no packet reads them.
//!
//! A list of which little changes is edited in place: its slot stays in force, and only the entries that differ are written.
//! Each packet sees each entry as it was or as it will be.
//!
//! A killed command that switches lists leaves bits of a slot that is not in force. They act on no packet, and the next
//! command removes them. A killed edit leaves a part of its entries in force, with the counts from before. The next edit
//! completes it.

pub mod action;
pub mod change;
pub mod edit;
pub mod entries;
pub mod listing;
mod plan;

use ratelimit_common::rules::list::Slots;

use crate::{Error, tables::open::Tables};

/// Completes or undoes a killed change: the lists in force stay, and entries that only other slots have are removed.
pub fn repair(tables: &mut Tables) -> Result<(), Error> {
    let control = tables.control()?;
    let in_force = control.lists_in(control.generation);
    if control.lists != [in_force; 2] {
        tables.set_control(&control.with_same_lists())?;
    }
    remove_unused(tables, in_force)
}

/// Removes the entries that none of these slots has.
fn remove_unused(tables: &Tables, slots: Slots) -> Result<(), Error> {
    let addresses: Vec<u32> =
        tables.lists.addresses()?.into_iter().filter(|(_, of)| of & slots == 0).map(|(key, _)| key).collect();
    tables.lists.remove_addresses(&addresses)?;
    let prefixes: Vec<_> =
        tables.lists.prefixes()?.into_iter().filter(|(_, of)| of & slots == 0).map(|(key, _)| key).collect();
    tables.lists.remove_prefixes(&prefixes)
}
