//! Checks whether something denies this host's own network, and so is not applied to it.

use ratelimit_common::maps::names::SPARED_MAX;
use ratelimit_dataplane::{
    Error,
    attach::attachment::Attachment,
    spared::{
        renew::{self, Look},
        unapplied,
    },
    tables::open::Tables,
};

use super::finding::{Check, Finding};

/// The most rules, and entries of a list, that are named.
const NAMED: usize = 20;

const WHY: &str = "This host needs its gateways, name servers and networks, and has their packets pass within their limits. Everything else that the entry denies is denied.";

const FORCED: &str = "This host loses packets that it needs.";

pub(super) fn examine(tables: &Tables, attachments: &[Attachment]) -> Result<Vec<Finding>, Error> {
    if !renew::is_on(tables)? {
        let why = "A list or a ban with a gateway, a name server or an address of this host cuts it off.";
        return Ok(vec![
            Finding::note(Check::OwnNetwork, "nothing is spared (--spare off)", why)
                .fixed_by("ratelimit set --spare on"),
        ]);
    }
    let limit = match renew::look(tables, attachments)? {
        Look::Elsewhere(name) => Some(Finding::warning(
            Check::OwnNetwork,
            &format!("what is spared does not follow this host: {name} is attached in another network namespace"),
            "Addresses, gateways and name servers that have changed since can be denied.",
        )),
        Look::Found { left_out: 0, .. } => None,
        Look::Found { left_out, .. } => Some(Finding::warning(
            Check::OwnNetwork,
            &format!("{left_out} prefixes of this host's own network are not spared: {SPARED_MAX} have room"),
            "A list or a ban with one of them applies to it. A rule allow keeps those that matter.",
        )),
    };
    let denies = unapplied::of_denies(tables, true)?.unwrap_or_default();
    let lists = unapplied::of_lists(tables, true)?.unwrap_or_default();
    let of_denies = denies.lines(NAMED).map(|line| format!("deny {line}"));
    let of_lists =
        lists.iter().flat_map(|(name, found)| found.lines(NAMED).map(move |line| format!("list {name}: {line}")));
    let notes = of_denies.chain(of_lists).map(|what| Finding::note(Check::OwnNetwork, &what, WHY));
    let forced = unapplied::of_forced(tables)?;
    let forced = forced.named.iter().map(|rule| {
        let what = format!("deny {} was forced, and denies {}", rule.entry, rule.named());
        Finding::warning(Check::OwnNetwork, &what, FORCED).fixed_by(format!("ratelimit deny del {}", rule.entry))
    });
    let notes: Vec<Finding> = limit.into_iter().chain(forced).chain(notes).collect();
    if notes.is_empty() {
        return Ok(vec![Finding::ok(Check::OwnNetwork, "nothing denies this host's own network")]);
    }
    Ok(notes)
}
