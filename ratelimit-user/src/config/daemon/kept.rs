//! What the daemon keeps of a list on a server, beside the copy of it.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::file::{self, Readers};

/// The most bytes of the file.
const MOST: usize = 64 << 10;

/// What is known of the copy of a list. It lies in a file of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The address that the copy is from.
    pub(crate) url: String,
    /// The version of the copy, as its server names it.
    #[serde(default)]
    pub(crate) etag: Option<String>,
    /// The time of the copy, as its server names it.
    #[serde(default)]
    pub(crate) last_modified: Option<String>,
    /// When the content last changed.
    pub(crate) changed_at: Timestamp,
    /// When the server last said that the copy is its list.
    pub(crate) checked_at: Timestamp,
}

impl Kept {
    /// Returns the path of the file for a copy.
    pub(crate) fn path(copy: &Path) -> PathBuf {
        let mut name: OsString = copy.file_name().unwrap_or_default().to_owned();
        name.push(".json");
        copy.with_file_name(name)
    }

    /// Reads what is known of a copy. None if there is none.
    pub(crate) fn read(copy: &Path) -> Option<Self> {
        let bytes = file::read(&Self::path(copy), MOST, Readers::All).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Reads what is known of a copy from this address. None if there is none.
    pub(crate) fn of(copy: &Path, url: &str) -> Option<Self> {
        Self::read(copy).filter(|kept| kept.url == url)
    }
}
