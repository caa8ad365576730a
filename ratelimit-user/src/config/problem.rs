//! What is wrong with a file, and where.

use std::{fmt, iter, ops::Range, path::PathBuf};

use serde::Serialize;

/// Characters of the offending text that are shown.
const SHOWN: usize = 60;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Of the offending text, from 1 on.
    pub line: usize,
    /// Of its first character in that line, from 1 on.
    pub column: usize,
    /// The offending text, as far as it is in that line.
    pub found: String,
    /// What was expected, or what to do.
    pub message: String,
}

/// Where the lines of a text begin.
#[derive(Debug)]
pub(super) struct Lines(Vec<usize>);

impl Lines {
    /// Of this text.
    pub(super) fn of(text: &str) -> Self {
        Self(iter::once(0).chain(text.match_indices('\n').map(|(end, _)| end + 1)).collect())
    }

    /// The line of a place in the text, from 1 on.
    pub(super) fn number(&self, place: usize) -> usize {
        self.0.partition_point(|start| *start <= place)
    }

    /// Where the line of a place begins.
    fn start(&self, place: usize) -> usize {
        self.0.get(self.number(place).saturating_sub(1)).copied().unwrap_or(0)
    }
}

impl Problem {
    /// A problem with this part of the text with these lines.
    pub(super) fn at(text: &str, lines: &Lines, span: Range<usize>, message: impl Into<String>) -> Self {
        let start = span.start.min(text.len());
        let line = lines.number(start);
        let column = text.get(lines.start(start)..start).unwrap_or_default().chars().count() + 1;
        let found = text.get(start..span.end.min(text.len())).unwrap_or_default();
        let found = found.lines().next().unwrap_or_default().trim_end();
        let found = match found.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &found[..end]),
            None => found.to_owned(),
        };
        Self { line, column, found, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.found.is_empty() {
            write!(f, "{}: ", self.found)?;
        }
        f.write_str(&self.message)
    }
}

/// A configuration file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{}: {cause}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It says what cannot be. There is one problem at least.
    #[error("{}", .problems.iter().map(|problem| format!("{}:{problem}", .path.display())).collect::<Vec<_>>().join("\n"))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong, from the beginning on.
        problems: Vec<Problem>,
    },
}
