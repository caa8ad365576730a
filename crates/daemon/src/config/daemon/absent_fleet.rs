//! The table `[fleet]` in a build without the feature `fleet`: a problem.

use ratelimit_base::tables::table::Table;

use super::absent;

/// A fleet that no file can join.
#[derive(Debug, Clone, PartialEq)]
pub enum Fleet {}

impl Fleet {
    /// Returns whether hosts divide the burst of a new source.
    #[must_use]
    pub fn divides_bursts(&self) -> bool {
        match *self {}
    }

    /// Returns whether this host takes shares of limits.
    #[must_use]
    pub fn takes_shares(&self) -> bool {
        match *self {}
    }

    /// Returns where the engine is, in words.
    #[must_use]
    pub fn engine_text(&self) -> String {
        match *self {}
    }

    /// Returns the keys of the table that differ in another file.
    #[must_use]
    pub fn differences(&self, _: &Self) -> Vec<&'static str> {
        match *self {}
    }
}

/// Adds a problem if the file has the table.
#[must_use]
pub fn read(top: &Table<'_>) -> Option<Fleet> {
    if let Some(table) = top.get("fleet") {
        table.wrong(absent("fleet"));
    }
    None
}
