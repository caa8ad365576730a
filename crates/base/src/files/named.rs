//! Files that tables name.

use std::{fs, io, io::Read as _, os::unix::fs::PermissionsExt as _, path::Path};

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Its owner and its group.
    Group,
    /// Every user.
    All,
}

/// Reads a regular file of at most so many bytes.
pub fn read(path: &Path, most: usize, readers: Readers) -> Result<Vec<u8>, String> {
    if !path.is_absolute() {
        return Err("expected an absolute path".to_owned());
    }
    let refused = |error: io::Error| format!("cannot be read: {error}");
    // Opening a pipe would block until another process writes to it.
    if !fs::metadata(path).map_err(refused)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let file = fs::File::open(path).map_err(refused)?;
    if readers == Readers::Group && file.metadata().map_err(refused)?.permissions().mode() & 0o007 != 0 {
        return Err(format!("every user of this machine has access to it: run `chmod o= {}`", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() > most { Err(format!("is larger than {most} bytes")) } else { Ok(bytes) }
}
