//! Shows lists.

use std::path::Path;

use anyhow::Result;
use ratelimit_dataplane::{Instance, lists::listing, spared::unapplied};
use serde::Serialize;

use super::set::{SHOWN, entries_text};
use crate::cli::print::{
    answer::Answer,
    list_row::Row,
    output::{self, Output, expiry},
};

/// Shows one list.
pub(super) fn show(name: &str, with_entries: bool, pins: &Path, output: Output) -> Result<Answer> {
    #[derive(Serialize)]
    struct Shown {
        #[serde(flatten)]
        row: Row,
        /// The first entries that are not applied to what this host spares.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        unapplied: Vec<unapplied::Row>,
        #[serde(skip_serializing_if = "Option::is_none")]
        list: Option<Vec<String>>,
    }
    let instance = Instance::open(pins)?;
    let Some(list) = listing::with_estimates(&instance.tables)?.into_iter().find(|list| list.name == name) else {
        output.print(&None::<Row>, |out| writeln!(out, "there is no list {name}"))?;
        return Ok(Answer::Negative);
    };
    let row = Row::of(&list);
    let unapplied = unapplied::of_list(&instance.tables, &list)?;
    if with_entries {
        let entries = listing::entries(&instance.tables, &list)?;
        drop(instance);
        let list = if output.json { entries.iter().map(ToString::to_string).collect() } else { Vec::new() };
        let shown = Shown { row, unapplied: unapplied.rows(), list: Some(list) };
        output.print(&shown, |out| entries.iter().try_for_each(|entry| writeln!(out, "{entry}")))?;
        return Ok(Answer::Done);
    }
    let shown = Shown { row, unapplied: unapplied.rows(), list: None };
    output.print(&shown, |out| {
        let row = &shown.row;
        let Row { addresses, prefixes, hits, .. } = row;
        writeln!(out, "{name}: {}", row.named_action())?;
        writeln!(out, "  {}: addresses {addresses}, prefixes {prefixes}", entries_text(row.entries))?;
        let word = if row.hits.estimated { "over the limit, an estimate" } else { "dropped" };
        writeln!(out, "  {} packets, {} bytes {word}", hits.packets, hits.bytes)?;
        writeln!(out, "  ends {}", expiry(row.expires_in_seconds, None))?;
        writeln!(
            out,
            "  set {}{}",
            row.set_by,
            row.file.as_ref().map_or_else(String::new, |_| format!(", from {}", row.place()))
        )?;
        unapplied.lines(SHOWN).try_for_each(|line| writeln!(out, "  {line}"))
    })?;
    Ok(Answer::Done)
}

/// Lists all lists.
pub(super) fn list(pins: &Path, output: Output) -> Result<Answer> {
    let instance = Instance::open(pins)?;
    let lists = listing::with_estimates(&instance.tables)?;
    drop(instance);
    let rows: Vec<Row> = lists.iter().map(Row::of).collect();
    output.print(&rows, |out| {
        if rows.is_empty() {
            return writeln!(out, "no lists");
        }
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        output::table(out, ["name", "action", "entries", "hits", "expires", "origin", "from"], &cells)
    })?;
    Ok(Answer::Done)
}
