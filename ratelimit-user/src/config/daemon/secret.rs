//! Secrets in files of their own.

use std::{fs, io::Read as _, ops::RangeInclusive, os::unix::fs::PermissionsExt as _, path::Path};

/// Reads a secret of so many characters from a file that only its owner and group can read.
pub(super) fn read(path: &Path, lengths: RangeInclusive<usize>) -> Result<String, String> {
    if !path.is_absolute() {
        return Err("expected an absolute path".to_owned());
    }
    let refused = |error: std::io::Error| format!("cannot be read: {error}");
    // Opening a pipe would block until another process writes to it.
    if !fs::metadata(path).map_err(refused)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let file = fs::File::open(path).map_err(refused)?;
    if file.metadata().map_err(refused)?.permissions().mode() & 0o007 != 0 {
        return Err(format!("every user of this machine has access to it: run `chmod o= {}`", path.display()));
    }
    let mut text = String::new();
    file.take(*lengths.end() as u64 + 2).read_to_string(&mut text).map_err(refused)?;
    let secret = text.trim_end();
    if lengths.contains(&secret.len()) && secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(secret.to_owned())
    } else {
        Err(format!(
            "expected one line with {} to {} letters, digits and punctuation marks in it",
            lengths.start(),
            lengths.end()
        ))
    }
}
