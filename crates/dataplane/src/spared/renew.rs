//! Keeps the map of spared prefixes as the host is now.

use std::collections::{BTreeMap, BTreeSet};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::source::Source,
    maps::{control::FEATURE_SPARE, names::SPARED_MAX},
    rules::spared::Spared,
};

use crate::{
    Error,
    attach::attachment::{Attachment, Attachments},
    instance::swap::pinned::Pinned,
    spared::place::{Place, Surroundings, fitting},
    tables::{open::Tables, spared as map},
};

/// Writes what this host spares by now. Returns whether something has changed.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not tell the addresses of interfaces, [`Error::Bpf`] if it refuses a change.
pub fn renew(pinned: &mut Pinned) -> Result<bool, Error> {
    let Some(wanted) = by_now(&pinned.tables, &pinned.attachments)? else { return Ok(false) };
    let steps = Steps::of(&numbers(&pinned.tables)?, &wanted);
    if steps.marked.is_empty() {
        return Ok(false);
    }
    let gone: Vec<Source> = steps.gone.iter().map(Prefix::source).collect();
    let values = |mark: u64| -> Vec<(Source, u64)> {
        steps.marked.iter().map(|place| (place.prefix.source(), place.why as u64 | mark)).collect()
    };
    let tables = &mut pinned.tables;
    if steps.removes_first {
        map::remove(tables, &gone)?;
    }
    map::set(tables, &values(UNFINISHED))?;
    if !steps.removes_first {
        map::remove(tables, &gone)?;
    }
    // Refusals of what is spared now are forgotten, and so are resolutions without what is no longer spared.
    tables.renew()?;
    map::set(tables, &values(0)).map(|()| true)
}

/// Marks the value of an entry until the generation is raised. If that never happens, since the process was killed, the
/// entry differs from what is wanted.
const UNFINISHED: u64 = 1 << 63;

/// What makes the map as it should be.
#[derive(Debug)]
struct Steps {
    /// Entries to write, first with the mark. Empty if there is nothing to do.
    marked: Vec<Place>,
    gone: Vec<Prefix>,
    /// Whether the map has no room for both.
    removes_first: bool,
}

impl Steps {
    fn of(found: &BTreeMap<Prefix, u64>, wanted: &[Place]) -> Self {
        let all: BTreeSet<Prefix> = wanted.iter().map(|place| place.prefix).collect();
        let gone: Vec<Prefix> = found.keys().filter(|old| !all.contains(old)).copied().collect();
        let is_new = |place: &&Place| found.get(&place.prefix) != Some(&(place.why as u64));
        let mut marked: Vec<Place> = wanted.iter().filter(is_new).copied().collect();
        let removes_first = gone.len() + all.len() > SPARED_MAX as usize;
        if marked.is_empty() && !gone.is_empty() {
            // It has the mark of those that go.
            marked.extend(wanted.first());
        }
        Self { marked, gone, removes_first }
    }
}

/// Does the same for a command. Its own work is no failure if this is one, and the daemon tries again.
pub(crate) fn try_renew(pinned: &mut Pinned) {
    let _ = renew(pinned);
}

/// Returns whether the map differs from what this host spares by now.
#[must_use]
pub fn is_old(tables: &Tables, attachments: &Attachments) -> bool {
    let Ok(Some(wanted)) = by_now(tables, attachments) else { return false };
    numbers(tables).is_ok_and(|found| !Steps::of(&found, &wanted).marked.is_empty())
}

/// Returns what the map should have. None if an interface is in another network namespace, which has other addresses.
fn by_now(tables: &Tables, attachments: &Attachments) -> Result<Option<Vec<Place>>, Error> {
    Ok(match look(tables, &attachments.list()?)? {
        Look::Found { places, .. } => Some(places),
        Look::Elsewhere(_) => None,
    })
}

/// What a look at this host has found.
#[derive(Debug)]
pub enum Look {
    /// What is to be spared, and for how much more there is no room.
    Found {
        /// Those with room.
        places: Vec<Place>,
        /// The number of the others.
        left_out: usize,
    },
    /// This interface is in another network namespace, which has other addresses.
    Elsewhere(String),
}

/// Looks at this host.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not tell the addresses of interfaces, [`Error::Bpf`] if it refuses.
pub fn look(tables: &Tables, attachments: &[Attachment]) -> Result<Look, Error> {
    if let Some(elsewhere) = elsewhere(attachments) {
        return Ok(Look::Elsewhere(elsewhere.name.clone()));
    }
    let mut now = Surroundings::read()?;
    if now.gateways.is_none() {
        now.keep(&recorded(tables)?);
    }
    let (places, left_out) = fitting(now.places(tables.control()?.ipv6_prefix as u8));
    Ok(Look::Found { places, left_out })
}

/// Returns an attachment in another network namespace.
#[must_use]
pub fn elsewhere(attachments: &[Attachment]) -> Option<&Attachment> {
    attachments.iter().find(|attachment| attachment.mode.is_none() && !attachment.is_gone)
}

/// Returns whether the program spares anything.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn is_on(tables: &Tables) -> Result<bool, Error> {
    Ok(tables.control()?.features & FEATURE_SPARE != 0)
}

/// Returns what the map has, in order.
fn recorded(tables: &Tables) -> Result<Vec<Place>, Error> {
    let place = |(prefix, number): (Prefix, u64)| Place { prefix, why: Spared::of(number & !UNFINISHED) };
    Ok(numbers(tables)?.into_iter().map(place).collect())
}

/// Returns the prefixes of the map with their values.
fn numbers(tables: &Tables) -> Result<BTreeMap<Prefix, u64>, Error> {
    let entries = map::all(tables)?.into_iter();
    Ok(entries.map(|(source, number)| (Prefix::of(&source, source.prefix), number)).collect())
}

/// Returns what the program spares, in order. Nothing with `--spare off`.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn in_force(tables: &Tables) -> Result<Vec<Place>, Error> {
    if is_on(tables)? { recorded(tables) } else { Ok(Vec::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(prefix: &str, why: Spared) -> Place {
        Place { prefix: prefix.parse().unwrap(), why }
    }

    fn map(places: &[Place]) -> BTreeMap<Prefix, u64> {
        places.iter().map(|place| (place.prefix, place.why as u64)).collect()
    }

    /// A process can be killed after each step: what it leaves always has something left to do, until the last one.
    #[test]
    fn each_step_but_the_last_leaves_something_to_do() {
        let (own, gateway) = (place("10.9.0.2", Spared::Own), place("10.9.0.1", Spared::Gateway));
        let (old, new) = (place("10.9.0.0/24", Spared::Network), place("10.9.0.0/23", Spared::Network));
        for (before, wanted) in [
            (vec![own, old], vec![own, new]),
            (vec![own], vec![own, gateway]),
            (vec![own, gateway], vec![own]),
            (vec![place("10.9.0.2", Spared::Gateway)], vec![own]),
        ] {
            let steps = Steps::of(&map(&before), &wanted);
            assert!(!steps.marked.is_empty() && !steps.removes_first, "{steps:?}");
            let mut found = map(&before);
            found.extend(steps.marked.iter().map(|place| (place.prefix, place.why as u64 | UNFINISHED)));
            assert!(!Steps::of(&found, &wanted).marked.is_empty(), "{found:?}");
            found.retain(|prefix, _| !steps.gone.contains(prefix));
            assert!(!Steps::of(&found, &wanted).marked.is_empty(), "{found:?}");
            found.extend(map(&steps.marked));
            assert_eq!(found, map(&wanted));
            assert!(Steps::of(&found, &wanted).marked.is_empty());
        }
    }

    #[test]
    fn old_entries_go_first_only_if_there_is_no_room() {
        let many = |first: u32, count: u32| -> Vec<Place> {
            let address = |number| std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string();
            (first..first + count).map(|number| place(&address(number), Spared::Own)).collect()
        };
        let removes_first = |wanted: u32| Steps::of(&map(&many(0, 1)), &many(1, wanted)).removes_first;
        assert!(!removes_first(SPARED_MAX - 1) && removes_first(SPARED_MAX));
    }
}
