//! Makes the programs fit the attached interfaces, and maintains the ledger of their counts.

use std::collections::BTreeSet;

use ratelimit_common::maps::{
    control::{FEATURE_INTERFACES, FEATURE_RAW_IP, FEATURE_SHADOW_PROGRAMS},
    interface_counters::{Counts, Ledger, OTHERS, TRIES},
};

use crate::{
    Error,
    instance::{edit, swap::pinned::Pinned},
    sys::{interface::Interface, link_type::FirstHeader},
    tables::{counters::place_of, open::Tables},
};

/// Makes the program count by interface if several will be attached, and not if one will be. Loads a second program if
/// one of them has no Ethernet headers, and others `with_shadow`.
pub(super) fn expect(pinned: &mut Pinned, coming: &[Interface], with_shadow: bool) -> Result<(), Error> {
    let mut expected = pinned.attachments.indices()?;
    expected.extend(coming.iter().map(|interface| interface.index));
    book(&mut pinned.tables, &expected)?;
    let mut needed = if expected.len() > 1 { FEATURE_INTERFACES } else { 0 };
    needed |= if with_shadow { FEATURE_SHADOW_PROGRAMS } else { 0 };
    for interface in coming {
        needed |= if interface.first_header()? == FirstHeader::Ip { FEATURE_RAW_IP } else { 0 };
    }
    edit::look_at(pinned, needed)?;
    edit::spare(pinned, (FEATURE_INTERFACES | FEATURE_RAW_IP | FEATURE_SHADOW_PROGRAMS) & !needed);
    Ok(())
}

/// Updates the ledger before another program is restored.
pub(super) fn settle_all(pinned: &mut Pinned) {
    let _ = pinned.attachments.indices().and_then(|attached| book(&mut pinned.tables, &attached));
}

/// Assigns a place to each of these interfaces if one is free, and the undivided counts to the interface that was
/// alone.
fn book(tables: &mut Tables, expected: &BTreeSet<u32>) -> Result<(), Error> {
    let before = tables.counters.ledger()?;
    let mut ledger = before.clone();
    for index in expected {
        if place_of(&ledger, *index).is_some() {
            continue;
        }
        let places = || (0..TRIES).map(|attempt| Ledger::place(*index, attempt));
        let owner = |place: &u32| ledger.interfaces[*place as usize];
        let free = places().find(|place| owner(place) == 0);
        // An attached interface keeps its place. One that was detached earlier loses it.
        let Some(place) = free.or_else(|| places().find(|place| !expected.contains(&owner(place)))) else { continue };
        if ledger.alone == place + 1 {
            settle(tables, &mut ledger, 0)?;
        }
        // The new interface starts at zero. The sum of all continues.
        ledger.offsets[place as usize] = Counts::default().minus(&tables.counters.at(place)?);
        ledger.interfaces[place as usize] = *index;
    }
    if let (Some(index), 1) = (expected.first(), expected.len()) {
        let alone = place_of(&ledger, *index).unwrap_or(OTHERS) + 1;
        if ledger.alone != alone {
            settle(tables, &mut ledger, alone)?;
        }
    }
    if ledger == before { Ok(()) } else { tables.counters.set_ledger(&ledger) }
}

/// Assigns the undivided counts to the interface that was alone. Nothing is counted there now, because it is detached
/// or not alone any more.
fn settle(tables: &Tables, ledger: &mut Ledger, next: u32) -> Result<(), Error> {
    let counted = tables.counters.undivided()?;
    if let Some(offset) = ledger.alone.checked_sub(1).and_then(|place| ledger.offsets.get_mut(place as usize)) {
        *offset = offset.plus(&counted.minus(&ledger.settled));
    }
    ledger.settled = counted;
    ledger.alone = next;
    Ok(())
}
