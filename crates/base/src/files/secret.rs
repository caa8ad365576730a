//! Secrets in files of their own.

use std::{ops::RangeInclusive, path::Path};

use crate::files::named::{self as file, Readers};

/// Space characters around a secret that a file may have.
const SPACE: usize = 64;

/// Reads a secret of so many characters from a file that only its owner and group can read.
pub fn read(path: &Path, lengths: RangeInclusive<usize>) -> Result<String, String> {
    let bytes = file::read(path, lengths.end() + SPACE, Readers::Group)?;
    let secret = bytes.trim_ascii_end();
    if lengths.contains(&secret.len()) && secret.iter().all(u8::is_ascii_graphic) {
        Ok(String::from_utf8_lossy(secret).into_owned())
    } else {
        Err(format!(
            "expected one line with {} to {} letters, digits and punctuation marks in it",
            lengths.start(),
            lengths.end()
        ))
    }
}
