//! What denies, but is not applied to this host's own network.

use std::io::{self, Write};

use anyhow::Result;
use ratelimit_dataplane::{
    attach::attachment::Attachment,
    spared::{
        place::PlaceRow,
        renew,
        unapplied::{self, Found},
    },
    tables::open::Tables,
};
use serde::Serialize;

/// The most rules and entries of a list that text names.
const SHOWN: usize = 3;

#[derive(Debug, Serialize)]
pub(super) struct Spared {
    /// Nothing with `--spare off`.
    prefixes: Vec<PlaceRow>,
    /// Rules *deny* that are not applied to some of these. Null if there are so many rules that only `doctor` looks.
    denies: Option<Vec<unapplied::Row>>,
    /// The same of the entries of lists.
    lists: Option<Vec<List>>,
    #[serde(skip)]
    lines: Vec<String>,
}

/// A list with such entries.
#[derive(Debug, Serialize)]
struct List {
    name: String,
    /// How many entries it has of this kind.
    entries: usize,
    /// The first of them.
    named: Vec<unapplied::Row>,
}

impl Spared {
    pub(super) fn read(tables: &Tables, attachments: &[Attachment]) -> Result<Self> {
        let prefixes = renew::in_force(tables)?.iter().map(PlaceRow::from).collect();
        let (denies, lists) = (unapplied::of_denies(tables, false)?, unapplied::of_lists(tables, false)?);
        let mut lines = Vec::new();
        if renew::is_on(tables)?
            && let Some(elsewhere) = renew::elsewhere(attachments)
        {
            let name = &elsewhere.name;
            lines.push(format!("what is spared is not renewed: {name} is attached in another network namespace"));
        }
        if let Some(denies) = &denies {
            lines.extend(denies.lines(SHOWN).map(|line| format!("deny {line}")));
        }
        for (name, found) in lists.iter().flatten() {
            lines.extend(found.lines(SHOWN).map(|line| format!("list {name}: {line}")));
        }
        let list = |(name, found): (String, Found)| List { name, entries: found.count, named: found.rows() };
        Ok(Self {
            prefixes,
            denies: denies.map(|denies| denies.rows()),
            lists: lists.map(|lists| lists.into_iter().map(list).collect()),
            lines,
        })
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.lines.iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}
