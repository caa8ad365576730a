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
    /// The file was ours, and is damaged.
    #[error("{}: the file is damaged: the server sets it aside at its next write", .0.display())]
    Damaged(PathBuf),
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
    /// Returns whether the file is damaged, so that nobody can write to it any more.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}
