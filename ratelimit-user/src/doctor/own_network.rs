//! Checks whether something denies this host's own network, and so is not applied to it.

use ratelimit_dataplane::{
    Error,
    spared::{
        renew,
        unapplied::{self, Found},
    },
    tables::open::Tables,
};

use super::finding::{Check, Finding};

/// The most rules, and entries of a list, that are named.
const NAMED: usize = 20;

const WHY: &str = "This host needs its gateways, name servers and networks, and has their packets pass within their limits. Everything else that the entry denies is denied.";

pub(super) fn examine(tables: &Tables) -> Result<Vec<Finding>, Error> {
    let places = renew::in_force(tables)?;
    if places.is_empty() {
        let why = "A list or a ban with a gateway, a name server or an address of this host cuts it off.";
        return Ok(vec![
            Finding::note(Check::OwnNetwork, "nothing is spared (--spare off)", why)
                .fixed_by("ratelimit set --spare on"),
        ]);
    }
    let denies = Found::all(unapplied::of_denies(tables, true)?.unwrap_or_default());
    let lists = unapplied::of_lists(tables, true)?.unwrap_or_default();
    let of_denies = denies.lines(NAMED).map(|line| format!("deny {line}"));
    let of_lists =
        lists.iter().flat_map(|(name, found)| found.lines(NAMED).map(move |line| format!("list {name}: {line}")));
    let notes: Vec<Finding> =
        of_denies.chain(of_lists).map(|what| Finding::note(Check::OwnNetwork, &what, WHY)).collect();
    if notes.is_empty() {
        return Ok(vec![Finding::ok(Check::OwnNetwork, "nothing denies this host's own network")]);
    }
    Ok(notes)
}
