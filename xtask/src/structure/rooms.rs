//! Reads `rooms.toml`: the rooms of each crate in their order, top down.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Name of the file, in the workspace's root.
pub const FILE: &str = "rooms.toml";

/// Key of the list of crates that run in the kernel.
const KERNEL: &str = "kernel";

/// A folder or a file of a crate, by its path below `src` without `.rs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// The path, such as `rules` or `dataplane/rules`.
    pub name: String,
    /// One sentence that says what belongs there.
    pub holds: String,
}

/// The rooms of one crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Folder of the crate.
    pub folder: String,
    /// Its rooms. Each may import from those behind it only.
    pub rooms: Vec<Room>,
}

/// All of `rooms.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rooms {
    /// Folders of the crates whose files must be the shortest, since they run in the kernel.
    pub kernel: Vec<String>,
    /// The crates.
    pub plans: Vec<Plan>,
}

impl Rooms {
    /// Reads the file in `root`.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing, or is not laid out as expected.
    pub fn read(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        Self::parse(&text)
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    ///
    /// Fails if the text is not laid out as expected.
    pub fn parse(text: &str) -> Result<Self> {
        let table = DeTable::parse(text).with_context(|| format!("{FILE} is no TOML"))?;
        let mut rooms = Self::default();
        for (key, value) in in_order(table.get_ref()) {
            match value {
                DeValue::Array(folders) if key == KERNEL => {
                    rooms.kernel =
                        folders.iter().map(|folder| text_of(KERNEL, folder.get_ref())).collect::<Result<_>>()?;
                }
                DeValue::Table(entries) => {
                    let entries = in_order(entries).into_iter();
                    let plan =
                        entries.map(|(name, holds)| Ok(Room { name: name.to_owned(), holds: text_of(name, holds)? }));
                    rooms.plans.push(Plan { folder: key.to_owned(), rooms: plan.collect::<Result<_>>()? });
                }
                _ => bail!("{FILE}: {key} is neither `{KERNEL}` nor a table of rooms"),
            }
        }
        Ok(rooms)
    }
}

/// The entries of a table in the order in which the file has them.
fn in_order<'a>(table: &'a DeTable<'a>) -> Vec<(&'a str, &'a DeValue<'a>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| Spanned::span(key).start);
    entries.into_iter().map(|(key, value)| (key.get_ref().as_ref(), value.get_ref())).collect()
}

fn text_of(key: &str, value: &DeValue<'_>) -> Result<String> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        _ => bail!("{FILE}: {key} has something else than a text"),
    }
}
