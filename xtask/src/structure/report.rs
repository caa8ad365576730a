//! The outcome of a check: what is wrong, and the graph between rooms as plain text.

use std::fmt;

use crate::finding::Finding;

/// The graph of one crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Folder of the crate.
    pub folder: String,
    /// Number of files.
    pub files: usize,
    /// Number of arrows between files.
    pub arrows: usize,
    /// Rooms top down, each with the rooms that it imports from.
    pub rooms: Vec<(String, Vec<String>)>,
    /// Arrows between rooms that lead upward.
    pub upward: usize,
    /// Circles of files.
    pub circles: usize,
    /// Circles of rooms.
    pub room_circles: usize,
}

/// The outcome for all crates.
#[derive(Debug, Default)]
pub struct Report {
    /// A graph for each crate.
    pub graphs: Vec<Graph>,
    /// What is wrong, by file and line.
    pub findings: Vec<Finding>,
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between: usize = self.rooms.iter().map(|(_, below)| below.len()).sum();
        writeln!(
            f,
            "{}: {} files with {} arrows, {} rooms with {between} arrows; {} arrows upward, {} circles of files, {} circles of rooms",
            self.folder,
            self.files,
            self.arrows,
            self.rooms.len(),
            self.upward,
            self.circles,
            self.room_circles,
        )?;
        let width = self.rooms.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, below) in &self.rooms {
            match below.as_slice() {
                [] => writeln!(f, "  {name}")?,
                below => writeln!(f, "  {name:<width$} -> {}", below.join(", "))?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for graph in &self.graphs {
            writeln!(f, "{graph}")?;
        }
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))
    }
}
