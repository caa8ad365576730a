//! Shows lists.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::set::entries_text;
use crate::{
    cli::print::{
        answer::Answer,
        output::{self, Output, Traffic, expiry, origin},
    },
    dataplane::{
        Instance,
        lists::{
            change::Action,
            listing::{self, Listing},
        },
    },
    limit::write,
};

/// A list in the output.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    name: String,
    pub(super) action: String,
    entries: u64,
    addresses: u32,
    prefixes: u32,
    hits: Traffic,
    /// Whether the hits are an estimate.
    hits_estimated: bool,
    /// Seconds.
    expires_in: Option<u64>,
    origin: &'static str,
    file: Option<String>,
}

impl Row {
    pub(crate) fn of(list: &Listing) -> Self {
        let action = match &list.action {
            Action::Deny => "deny".to_owned(),
            Action::Limit(spec) => write::limit(spec),
        };
        Self {
            name: list.name.clone(),
            action,
            entries: list.entries(),
            addresses: list.addresses,
            prefixes: list.prefixes,
            hits: Traffic { packets: list.hits.packets, bytes: list.hits.bytes },
            hits_estimated: list.action != Action::Deny,
            expires_in: list.expires_in.map(|left| left.as_secs()),
            origin: origin(list.origin),
            file: list.file.as_ref().map(|file| file.to_string_lossy().into_owned()),
        }
    }

    fn hits(&self) -> String {
        format!("{}{}", if self.hits_estimated { "~" } else { "" }, self.hits.packets)
    }

    fn file(&self) -> String {
        self.file.as_deref().map_or_else(|| "-".to_owned(), crate::text::excerpt::escaped)
    }

    fn cells(&self) -> [String; 7] {
        [
            self.name.clone(),
            self.action.clone(),
            self.entries.to_string(),
            self.hits(),
            expiry(self.expires_in, None),
            self.origin.to_owned(),
            self.file(),
        ]
    }
}

/// Shows one list.
pub(super) fn show(name: &str, with_entries: bool, pins: &Path, output: Output) -> Result<Answer> {
    #[derive(Serialize)]
    struct Entries {
        #[serde(flatten)]
        row: Row,
        list: Vec<String>,
    }
    let instance = Instance::open(pins)?;
    let Some(list) = listing::all(&instance.tables)?.into_iter().find(|list| list.name == name) else {
        output.print(&None::<Row>, |out| writeln!(out, "there is no list {name}"))?;
        return Ok(Answer::Negative);
    };
    let row = Row::of(&list);
    if with_entries {
        let entries = listing::entries(&instance.tables, &list)?;
        drop(instance);
        let list = if output.json { entries.iter().map(ToString::to_string).collect() } else { Vec::new() };
        output.print(&Entries { row, list }, |out| entries.iter().try_for_each(|entry| writeln!(out, "{entry}")))?;
        return Ok(Answer::Done);
    }
    output.print(&row, |out| {
        let Row { action, addresses, prefixes, hits, .. } = &row;
        writeln!(out, "{name}: {action}")?;
        writeln!(out, "  {}: addresses {addresses}, prefixes {prefixes}", entries_text(row.entries))?;
        let word = if row.hits_estimated { "over the limit, an estimate" } else { "dropped" };
        writeln!(out, "  {} packets, {} bytes {word}", hits.packets, hits.bytes)?;
        writeln!(out, "  ends {}", expiry(row.expires_in, None))?;
        writeln!(
            out,
            "  set by {}{}",
            row.origin,
            row.file.as_ref().map_or_else(String::new, |_| format!(", from {}", row.file()))
        )
    })?;
    Ok(Answer::Done)
}

/// Lists all lists.
pub(super) fn list(pins: &Path, output: Output) -> Result<Answer> {
    let instance = Instance::open(pins)?;
    let lists = listing::all(&instance.tables)?;
    drop(instance);
    let rows: Vec<Row> = lists.iter().map(Row::of).collect();
    output.print(&rows, |out| {
        if rows.is_empty() {
            return writeln!(out, "no lists");
        }
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        output::table(out, ["name", "action", "entries", "hits", "expires", "origin", "file"], &cells)
    })?;
    Ok(Answer::Done)
}
