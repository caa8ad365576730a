//! Reads a file that no other user may write, and replaces it atomically.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, BufWriter, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

/// The most bytes of a file. The largest number of debts and bans needs half of this.
pub const MOST: u64 = 48 << 20;

/// Permission to read and write for the owner alone.
const MODE: u32 = 0o600;

/// Permissions to write for the group and for all users.
const OTHERS_WRITE: u32 = 0o022;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
    /// It is a folder, a pipe or a device.
    #[error("is not a regular file")]
    Kind,
    /// It belongs to another user.
    #[error("belongs to user {0}, who could have changed it")]
    Foreign(u32),
    /// Other users may write it.
    #[error("other users may write it")]
    Writable,
    /// It has another content, so a snapshot must not replace it.
    #[error("is not a state file, and is not replaced: delete it, or write another path into [state]")]
    Other,
    /// It is larger than any file that was written.
    #[error("is larger than any state")]
    Large,
}

/// Returns the text of a file. None if there is no file.
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    let Some((file, metadata)) = open(path)? else { return Ok(None) };
    if metadata.uid() != 0 && metadata.uid() != geteuid().as_raw() {
        return Err(FileError::Foreign(metadata.uid()));
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        return Err(FileError::Writable);
    }
    let mut text = String::new();
    file.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST { Err(FileError::Large) } else { Ok(Some(text)) }
}

/// Checks that a file begins with a text, if there is one.
pub fn check_beginning(path: &Path, text: &str) -> Result<(), FileError> {
    let Some((file, _)) = open(path)? else { return Ok(()) };
    let mut beginning = Vec::new();
    file.take(text.len() as u64).read_to_end(&mut beginning)?;
    if beginning == text.as_bytes() { Ok(()) } else { Err(FileError::Other) }
}

/// Opens a regular file for reading. None if there is no file.
fn open(path: &Path) -> Result<Option<(File, Metadata)>, FileError> {
    // Opening a pipe would block until another process writes to it.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok(Some((file, metadata))) } else { Err(FileError::Kind) }
}

/// Puts a new file in the place of another one. After a failure, the other one is still there.
pub fn replace(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let new = beside(path);
    // An earlier daemon may have been killed here.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new)?;
    let mut out = BufWriter::new(file);
    let written = fill(&mut out).and_then(|()| out.flush()).and_then(|()| out.get_ref().sync_all());
    let replaced = written.and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        // The first failure is the one to report.
        let _ = fs::remove_file(&new);
    }
    replaced?;
    // The new name must outlast a crash too.
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Returns the path of the new file until it is complete.
fn beside(path: &Path) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_read_only_if_nobody_else_could_write_it() {
        let folder = std::env::temp_dir().join(format!("ratelimit-state-{}", std::process::id()));
        let path = folder.join("state");
        fs::create_dir(&folder).unwrap();
        assert_eq!(read(&path).unwrap(), None);
        check_beginning(&path, "one").unwrap();
        fs::write(beside(&path), "of a killed daemon").unwrap();
        let write = |text: &'static str| replace(&path, |out| out.write_all(text.as_bytes()));
        write("one").unwrap();
        write("two").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        check_beginning(&path, "tw").unwrap();
        for other in ["tx", "twos"] {
            assert!(matches!(check_beginning(&path, other), Err(FileError::Other)));
        }
        replace(&path, |_| Err(io::Error::other("the disk is full"))).unwrap_err();
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert!(!beside(&path).exists());

        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(matches!(read(&path), Err(FileError::Writable)));
        let link = folder.join("link");
        symlink(&path, &link).unwrap();
        assert!(matches!(read(&link), Err(FileError::System(_))));
        assert!(matches!(read(&folder), Err(FileError::Kind)));
        File::create(&path).unwrap().set_len(MOST + 1).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(MODE)).unwrap();
        assert!(matches!(read(&path), Err(FileError::Large)));
        fs::remove_dir_all(&folder).unwrap();
        assert!(write("three").is_err());
    }
}
