//! What the daemon keeps of a list on a server, beside the copy of it.

use std::{
    ffi::OsString,
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use ratelimit_base::{
    fetch::Address,
    files::named::{self as file, Readers},
};
use ratelimit_dataplane::pins::ownership;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The most bytes of the file.
const MOST: usize = 64 << 10;

/// Said about a copy that was never fetched.
const NOT_FETCHED: &str = "has not been fetched yet";

/// Said about a copy that another program has changed.
const OTHER: &str = "is not as the daemon wrote it, and the next request replaces it";

/// What is known of the copy of a list. It lies in a file of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The address that the copy is from.
    pub url: String,
    /// The version of the copy, as its server names it.
    #[serde(default)]
    pub etag: Option<String>,
    /// The time of the copy, as its server names it.
    #[serde(default)]
    pub last_modified: Option<String>,
    /// When the content last changed.
    pub changed_at: Timestamp,
    /// When the server last said that the copy is its list.
    pub checked_at: Timestamp,
    /// The number of its entries.
    pub entries: usize,
    /// The bytes of the copy.
    pub bytes: u64,
    /// The SHA-256 of the copy.
    pub sha256: [u8; 32],
}

impl Kept {
    /// Returns the path of the file for a copy.
    pub fn path(copy: &Path) -> PathBuf {
        with_suffix(copy, ".json")
    }

    /// Returns the files that the daemon writes for a copy, also those that are not complete yet.
    pub(in crate::config) fn files(copy: &Path) -> [PathBuf; 4] {
        let of_copy = Self::path(copy);
        let new = |path| with_suffix(path, ".new");
        [copy.to_owned(), new(copy), new(&of_copy), of_copy]
    }

    /// Reads what is known of a copy. None if there is none.
    pub fn read(copy: &Path) -> Option<Self> {
        let bytes = file::read(&Self::path(copy), MOST, Readers::All).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Returns the address that a copy is from, without its query. None if the file is no copy.
    pub fn address(copy: &Path) -> Option<String> {
        let address: Address = Self::read(copy)?.url.parse().ok()?;
        Some(address.to_string())
    }

    /// Returns the size and the SHA-256 of a list.
    pub fn digest(list: &[u8]) -> (u64, [u8; 32]) {
        let mut sha256 = [0; 32];
        sha256.iter_mut().zip(digest(&SHA256, list).as_ref()).for_each(|(to, from)| *to = *from);
        (list.len() as u64, sha256)
    }

    /// Returns the copy of the list from this address, and what is known of it.
    ///
    /// # Errors
    ///
    /// Fails with what is wrong with the copy, as a predicate: there is none, another user could have written it, it differs
    /// from what the daemon wrote, or it has more than `most` entries.
    pub fn with_copy(copy: &Path, url: &str, most: usize) -> Result<(Self, Vec<u8>), String> {
        let folder = copy.parent().unwrap_or(copy);
        ownership::check(folder).map_err(|error| format!("cannot be trusted: {error}"))?;
        let kept = Self::read(copy).filter(|kept| kept.url == url).ok_or(NOT_FETCHED)?;
        let list = match kept.content(copy) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NOT_FETCHED.to_owned()),
            list => list.map_err(|error| format!("cannot be read: {error}"))?,
        };
        if Self::digest(&list) != (kept.bytes, kept.sha256) {
            return Err(OTHER.to_owned());
        }
        match kept.entries {
            count if count > most => Err(format!("has {count} entries, and max-entries allows {most}")),
            _ => Ok((kept, list)),
        }
    }

    /// Reads a copy, and one byte more than it has.
    fn content(&self, copy: &Path) -> io::Result<Vec<u8>> {
        // Opening a pipe would wait until another process writes to it.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(copy)?;
        let mut bytes = Vec::new();
        file.take(self.bytes.saturating_add(1)).read_to_end(&mut bytes).map(|_| bytes)
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}
