//! Paths of files as text.

use std::{os::unix::ffi::OsStrExt as _, path::PathBuf};

/// Parses the absolute path of a file.
///
/// # Errors
///
/// Fails with what was expected.
pub fn absolute(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    // `file_name` ignores `/` and `/.` at the end.
    let is_file = path.is_absolute() && path.file_name().is_some_and(|name| text.as_bytes().ends_with(name.as_bytes()));
    if is_file { Ok(path) } else { Err("expected the absolute path of a file") }
}
