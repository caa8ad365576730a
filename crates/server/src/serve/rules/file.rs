//! Rules of callers in a file of this host.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write as _},
    iter,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ratelimit_base::files::{
    damaged,
    guarded::{self as file, FileError},
    lock::{self, FileLock},
};

use super::store::{StoreError, Write};
use crate::config::stored::{self, Contents};

/// Files with older rules that were set aside.
const OLDER: u32 = 4;
/// How long the oldest of them stays at least.
const NEW: Duration = Duration::from_secs(7 * 24 * 3_600);

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
            || StoreError::Taken(format!("rules: another server has {}: choose another path", path.display()));
        let lock = FileLock::take(path).map_err(refused)?.ok_or_else(another)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }
}

impl FileStore {
    /// Reads all rules with their versions.
    pub(super) fn read(&self) -> Result<Contents, StoreError> {
        let wrong = |problem: &str| format!("{}{problem}", self.path.display());
        match file::read(&self.path) {
            Ok(Some(text)) => stored::parse(&text).map_err(|problem| {
                let problem = wrong(&format!(":{problem}"));
                if stored::is_damaged(&text) { StoreError::Damaged(problem) } else { StoreError::Unusable(problem) }
            }),
            Ok(None) => Ok(Contents::default()),
            Err(FileError::System(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(StoreError::Damaged(wrong(&format!(": {error}"))))
            }
            Err(error) => Err(StoreError::Unusable(wrong(&format!(": {error}")))),
        }
    }

    /// Makes one change. After a failure, nothing is changed.
    pub(super) fn write(&self, write: Write<'_>) -> Result<(), StoreError> {
        let before = self.read()?;
        // These rules are not those of a fleet any more.
        let after = Contents { fleet: None, ..write.applied_to(&before)? };
        let length = stored::write(&after).len() as u64;
        if length > file::MOST {
            let problem =
                format!("the rules of callers would have {length} bytes, at most {} are possible", file::MOST);
            return Err(StoreError::Unusable(problem));
        }
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

    /// Keeps rules in another file, unless one has them already. Those that were set aside before stay in further files. An
    /// engine that lies again and again replaces only its own rules among them. Returns the path.
    pub(super) fn set_aside(&self, contents: &Contents) -> io::Result<PathBuf> {
        let newest = beside(&self.path, "before");
        let older = (1..=OLDER).map(|number| beside(&self.path, &format!("before.{number}")));
        let paths: Vec<PathBuf> = iter::once(newest.clone()).chain(older).collect();
        let text = stored::write(contents);
        if let Some(path) = paths.iter().find(|path| file::read(path).is_ok_and(|kept| kept.as_ref() == Some(&text))) {
            // They are as new as if no file had them.
            let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(path.clone());
        }
        if !paths.last().is_some_and(|oldest| is_new(oldest)) {
            for (from, to) in paths.iter().zip(paths.iter().skip(1)).rev() {
                match fs::rename(from, to) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        replace(&newest, contents)?;
        Ok(newest)
    }

    /// Gives a file that cannot be read another name, in place of one of before. Returns in words what became of it.
    pub(super) fn set_aside_as_damaged(&self) -> String {
        match damaged::set_aside(&self.path) {
            Ok(aside) => format!("it has the name {} now", aside.display()),
            Err(error) => format!("it cannot get another name: {error}"),
        }
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn replace(path: &Path, contents: &Contents) -> io::Result<()> {
    file::replace(path, |out| out.write_all(stored::write(contents).as_bytes()))
}

/// Returns whether a file is so new that no other one takes its place. One of the future is.
fn is_new(path: &Path) -> bool {
    let written = fs::symlink_metadata(path).and_then(|file| file.modified());
    written.is_ok_and(|written| !written.elapsed().is_ok_and(|age| age >= NEW))
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
        let before = folder.join("rules.toml.before");
        for version in [1, 1, 2] {
            assert_eq!(store.set_aside(&contents(version)).unwrap(), before);
        }
        assert_eq!(kept(), [2, 1]);
        // An engine can show other rules every second.
        for version in 3..100 {
            assert_eq!(store.set_aside(&contents(version)).unwrap(), before);
        }
        assert_eq!(kept(), [99, 4, 3, 2, 1]);
        let oldest = folder.join("rules.toml.before.4");
        let age = |path| File::open(path).unwrap().set_modified(SystemTime::now() - NEW).unwrap();
        // Rules that come again are new again.
        age(&oldest);
        assert_eq!(store.set_aside(&contents(1)).unwrap(), oldest);
        store.set_aside(&contents(100)).unwrap();
        assert_eq!(kept(), [100, 4, 3, 2, 1]);
        age(&oldest);
        store.set_aside(&contents(101)).unwrap();
        assert_eq!(kept(), [101, 100, 4, 3, 2]);
        fs::remove_dir_all(folder).unwrap();
    }
}
