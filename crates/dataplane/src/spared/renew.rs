//! Keeps the map of spared prefixes as the host is now.

use std::collections::BTreeMap;

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{identity::source::Source, maps::control::FEATURE_SPARE, rules::spared::Spared};

use crate::{
    Error,
    attach::attachment::{Attachment, Attachments},
    instance::swap::pinned::Pinned,
    spared::place::{Place, Surroundings},
    tables::{open::Tables, spared as map},
};

/// Writes what this host spares by now. Returns whether something has changed.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not tell the addresses of interfaces, [`Error::Bpf`] if it refuses a change.
pub fn renew(pinned: &mut Pinned) -> Result<bool, Error> {
    let Some(wanted) = by_now(&pinned.tables, &pinned.attachments)? else { return Ok(false) };
    let found: BTreeMap<Prefix, Spared> =
        recorded(&pinned.tables)?.into_iter().map(|place| (place.prefix, place.why)).collect();
    let wanted: BTreeMap<Prefix, Spared> = wanted.into_iter().map(|place| (place.prefix, place.why)).collect();
    if found == wanted {
        return Ok(false);
    }
    let gone: Vec<Source> = found.keys().filter(|old| !wanted.contains_key(old)).map(Prefix::source).collect();
    let new = wanted.iter().filter(|(prefix, why)| found.get(prefix) != Some(*why));
    let new: Vec<(Source, u64)> = new.map(|(prefix, why)| (prefix.source(), *why as u64)).collect();
    // The map has room for all once the old ones are gone.
    map::remove(&pinned.tables, &gone)?;
    map::set(&pinned.tables, &new)?;
    // Refusals of what is spared now are forgotten, and so are resolutions without what is no longer spared.
    pinned.tables.renew().map(|()| true)
}

/// Does the same for a command. Its own work is no failure if this is one, and the daemon tries again.
pub(crate) fn try_renew(pinned: &mut Pinned) {
    let _ = renew(pinned);
}

/// Returns whether the map differs from what this host spares by now.
#[must_use]
pub fn is_old(tables: &Tables, attachments: &Attachments) -> bool {
    let Ok(Some(wanted)) = by_now(tables, attachments) else { return false };
    recorded(tables).is_ok_and(|recorded| recorded != wanted)
}

/// Returns what the map should have. None if an interface is in another network namespace, which has other addresses.
fn by_now(tables: &Tables, attachments: &Attachments) -> Result<Option<Vec<Place>>, Error> {
    let is_elsewhere = |attachment: &Attachment| attachment.mode.is_none() && !attachment.is_gone;
    if attachments.list()?.iter().any(is_elsewhere) {
        return Ok(None);
    }
    let mut now = Surroundings::read()?;
    if now.gateways.is_none() {
        let known = recorded(tables)?.into_iter().filter(|place| place.why == Spared::Gateway);
        now.gateways = Some(known.map(|place| place.prefix.address()).collect());
    }
    Ok(Some(now.places(tables.control()?.ipv6_prefix as u8)))
}

/// Returns what the map has, in order.
fn recorded(tables: &Tables) -> Result<Vec<Place>, Error> {
    let place =
        |(source, why): (Source, u64)| Place { prefix: Prefix::of(&source, source.prefix), why: Spared::of(why) };
    let mut all: Vec<Place> = map::all(tables)?.into_iter().map(place).collect();
    all.sort_unstable();
    Ok(all)
}

/// Returns what the program spares, in order. Nothing with `--spare off`.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn in_force(tables: &Tables) -> Result<Vec<Place>, Error> {
    if tables.control()?.features & FEATURE_SPARE == 0 { Ok(Vec::new()) } else { recorded(tables) }
}
