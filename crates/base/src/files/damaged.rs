//! Tells a damaged file from one of something else, and sets it aside. A file that a program writes and reads as text, or as
//! something with a beginning of its own, can have other bytes after a fault of the disk.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Bytes by which a text is told.
const BEGINNING: u64 = 4_096;

/// Returns whether a file begins with bytes that no text has, or is empty, as after a crash. A text is a file of somebody,
/// which stays where it is.
#[must_use]
pub fn is_no_text(path: &Path) -> bool {
    let is_of_text = |byte: &u8| (*byte >= b' ' && *byte != 0xff) || byte.is_ascii_whitespace();
    beginning(path).is_ok_and(|bytes| bytes.is_empty() || !bytes.iter().all(is_of_text))
}

fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait until another process writes to it.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(BEGINNING).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Gives a damaged file another name, in place of an earlier one. Returns the name.
///
/// # Errors
///
/// Fails if the file cannot be renamed.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(".damaged");
    let aside = path.with_file_name(name);
    fs::rename(path, &aside)?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_no_text_has_and_an_empty_file_are_damage() {
        let folder = std::env::temp_dir().join(format!("ratelimit-damaged-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("file");
        for (bytes, expected) in [
            (&b"a\ttext\r\nof lines\n"[..], false),
            ("Zürich".as_bytes(), false),
            (b"", true),
            (b"a text\0", true),
            (&[0xff; 9], true),
        ] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(is_no_text(&path), expected);
        }
        assert!(!is_no_text(&folder));
        assert_eq!(set_aside(&path).unwrap(), folder.join("file.damaged"));
        assert!(!is_no_text(&path) && set_aside(&path).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
