//! Locks a file for one process of this host, which can replace it meanwhile.

use std::{
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    io::Errno,
};

/// A lock on a file. The system ends it with the process, however that ends.
#[derive(Debug)]
pub struct FileLock {
    _file: OwnedFd,
}

/// Returns the path of the file that is locked in place of another one.
pub fn beside(path: &Path) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    path.with_file_name(name)
}

impl FileLock {
    /// Locks a file, which need not exist. Returns None if another process has locked it.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        // It is open for reading only, so that the disk can be made read-only meanwhile.
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = open(beside(path), flags, Mode::RUSR | Mode::WUSR)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_has_one_lock_at_a_time_and_none_after_its_end() {
        let path = std::env::temp_dir().join(format!("ratelimit-lock-{}", std::process::id()));
        let first = FileLock::take(&path).unwrap().unwrap();
        assert!(FileLock::take(&path).unwrap().is_none());
        drop(first);
        assert!(FileLock::take(&path).unwrap().is_some());
        fs::remove_file(beside(&path)).unwrap();
        assert!(FileLock::take(Path::new("/nowhere/file")).is_err());
    }
}
