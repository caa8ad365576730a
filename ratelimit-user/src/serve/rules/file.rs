//! Rules of callers in a file of this host.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::store::{StoreError, Write};
use crate::{
    config::requests::stored::{self, Contents},
    controller::state::{
        file,
        lock::{self, FileLock},
    },
};

/// Files with older rules that were set aside.
const OLDER: u32 = 4;

/// A file with rules. One server at a time has it.
#[derive(Debug)]
pub(super) struct FileStore {
    path: PathBuf,
    _lock: FileLock,
}

impl FileStore {
    /// Takes a file, which need not exist, for this server.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let refused = |error: io::Error| {
            let advice = "does its folder exist, and may this user write there?";
            StoreError::Unusable(format!("rules: {}: {error}: {advice}", lock::beside(path).display()))
        };
        let another =
            || StoreError::Unusable(format!("rules: another server has {}: choose another path", path.display()));
        let lock = FileLock::take(path).map_err(refused)?.ok_or_else(another)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }
}

impl FileStore {
    /// Reads all rules with their versions.
    pub(super) fn read(&self) -> Result<Contents, StoreError> {
        let wrong = |problem: &str| StoreError::Unusable(format!("{}{problem}", self.path.display()));
        match file::read(&self.path).map_err(|error| wrong(&format!(": {error}")))? {
            Some(text) => stored::parse(&text).map_err(|problem| wrong(&format!(":{problem}"))),
            None => Ok(Contents::default()),
        }
    }

    /// Makes one change. After a failure, nothing is changed.
    pub(super) fn write(&self, write: Write<'_>) -> Result<(), StoreError> {
        let before = self.read()?;
        // These rules are not those of a fleet any more.
        let after = Contents { fleet: None, ..write.applied_to(&before)? };
        self.replace(&after).map_err(|error| {
            // The new file may have its name already, although the folder does not keep it.
            if self.read().is_ok_and(|now| now != before) {
                let _ = self.replace(&before);
            }
            StoreError::Unusable(format!("{}: {error}", self.path.display()))
        })
    }

    /// Replaces all rules.
    pub(super) fn replace(&self, contents: &Contents) -> io::Result<()> {
        replace(&self.path, contents)
    }

    /// Keeps rules in another file. Those that it had stay in further files, the newest ones. Returns the path.
    pub(super) fn set_aside(&self, contents: &Contents) -> io::Result<PathBuf> {
        let path = |number: u32| match number {
            0 => beside(&self.path, "before"),
            number => beside(&self.path, &format!("before.{number}")),
        };
        let text = stored::write(contents);
        // Rules that come again and again displace no others.
        if !file::read(&path(0)).is_ok_and(|before| before.as_ref() == Some(&text)) {
            for number in (0..OLDER).rev() {
                match fs::rename(path(number), path(number + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        replace(&path(0), contents)?;
        Ok(path(0))
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn replace(path: &Path, contents: &Contents) -> io::Result<()> {
    file::replace(path, |out| out.write_all(stored::write(contents).as_bytes()))
}

/// Returns the path of a file beside another one.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{ending}"));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_are_set_aside_stay_when_others_are() {
        let folder = std::env::temp_dir().join(format!("ratelimit-aside-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let store = FileStore::open(&folder.join("rules.toml")).unwrap();
        let contents = |version| Contents { version, ..Contents::default() };
        let kept = || -> Vec<u64> {
            let names = ["before", "before.1", "before.2", "before.3", "before.4", "before.5"];
            let text = |name| fs::read_to_string(folder.join(format!("rules.toml.{name}"))).ok();
            names.into_iter().filter_map(text).map(|text| stored::parse(&text).unwrap().version).collect()
        };
        for version in [1, 1, 2] {
            assert_eq!(store.set_aside(&contents(version)).unwrap(), folder.join("rules.toml.before"));
        }
        assert_eq!(kept(), [2, 1]);
        for version in 3..8 {
            store.set_aside(&contents(version)).unwrap();
        }
        assert_eq!(kept(), [7, 6, 5, 4, 3]);
        fs::remove_dir_all(folder).unwrap();
    }
}
