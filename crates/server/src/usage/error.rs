//! What can go wrong with a file.

use std::{io, path::PathBuf};

/// What can go wrong with a file. Each text begins with its path.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// No file.
    #[error("{}: no such file: a server creates the file that `usage` in its table [serve] names", .0.display())]
    Missing(PathBuf),
    /// The file belongs to something else.
    #[error("{}: this is no file with usage: choose the path in `usage` of [serve], or another one for a new file", .0.display())]
    Foreign(PathBuf),
    /// A later version wrote the file.
    #[error("{}: a later version of ratelimit wrote this file: install that version, or choose another path", .0.display())]
    Newer(PathBuf),
    /// The folder is missing.
    #[error("{}: its folder does not exist: create it, and let the user of the server write there", .0.display())]
    NoFolder(PathBuf),
    /// SQLite cannot open the file.
    #[error("{}: cannot open the file: this user needs its group, and the server also needs to write to its folder", .0.display())]
    Closed(PathBuf),
    /// The file cannot be created or found.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// SQLite refuses.
    #[error("{}: {cause}", path.display())]
    Database {
        /// The path.
        path: PathBuf,
        /// Why.
        cause: rusqlite::Error,
    },
}

impl UsageError {
    /// Returns whether only the operator can put this right.
    #[must_use]
    pub fn is_wrong_file(&self) -> bool {
        matches!(self, Self::Foreign(_) | Self::Newer(_) | Self::NoFolder(_))
    }
}
