//! Problems of a file, with their places.

use std::{fmt, iter, ops::Range, path::PathBuf};

use rustix::process::geteuid;
use serde::Serialize;

use crate::text::{
    excerpt::{escaped, excerpt},
    plain::plain,
};

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The line of the wrong text. The first is 1.
    pub line: usize,
    /// The column of its first character. The first is 1.
    pub column: usize,
    /// The part of the wrong text in that line.
    pub found: String,
    /// What was expected, or how to fix it.
    pub message: String,
}

/// The places where lines of a text begin.
#[derive(Debug)]
pub struct Lines(Vec<usize>);

impl Lines {
    /// Returns the lines of a text.
    pub fn of(text: &str) -> Self {
        Self(iter::once(0).chain(text.match_indices('\n').map(|(end, _)| end + 1)).collect())
    }

    /// Returns the line of a place in the text. The first is 1.
    pub fn number(&self, place: usize) -> usize {
        self.0.partition_point(|start| *start <= place)
    }

    /// Returns where the line of a place begins.
    fn start(&self, place: usize) -> usize {
        self.0.get(self.number(place).saturating_sub(1)).copied().unwrap_or(0)
    }
}

impl Problem {
    /// Returns a problem with the part `span` of a text.
    pub fn at(text: &str, lines: &Lines, span: Range<usize>, message: impl Into<String>) -> Self {
        let start = span.start.min(text.len());
        let line = lines.number(start);
        let column = text.get(lines.start(start)..start).unwrap_or_default().chars().count() + 1;
        let found = text.get(start..span.end.min(text.len())).unwrap_or_default();
        let found = excerpt(found.lines().next().unwrap_or_default().trim_end());
        Self { line, column, found, message: escaped(&message.into()) }
    }
}

/// Returns an error of syntax in plain words.
pub fn syntax(text: &str, error: &toml::de::Error) -> String {
    let message = plain(error.message());
    // The list has a name that is almost that of its tables.
    let is_list = message != error.message() && error.span().and_then(|span| text.get(span)) == Some("interface");
    if is_list { format!("{message}. The list of names is `interfaces`") } else { message }
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

/// A configuration file that cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {cause}{}", .path.display(), advice(.cause))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The file has at least one problem.
    #[error("{}", .problems.iter().map(|problem| format!("{}:{problem}", .path.display())).collect::<Vec<_>>().join("\n"))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// All problems, in the order of the text.
        problems: Vec<Problem>,
    },
}

/// Returns what to do if root may not read a file. Root without CAP_DAC_OVERRIDE, as in the unit, needs permission.
pub fn advice(cause: &std::io::Error) -> &'static str {
    let is_denied = cause.kind() == std::io::ErrorKind::PermissionDenied;
    if is_denied && geteuid().is_root() {
        ": the daemon may read only what root or its group may read: give the file and its folders to root with chown"
    } else {
        ""
    }
}
