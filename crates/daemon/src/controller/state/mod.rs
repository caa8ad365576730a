//! The state file: debts, bans and the learned rate as they outlast a reboot. How they are read from the maps and written to them belongs to
//! `dataplane`. When the file is written belongs to `daemon`.

mod format;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ratelimit_base::{
    files::{
        damaged,
        guarded::{self, FileError},
        lock::FileLock,
    },
    notify::journal::{Level, say},
};
use ratelimit_dataplane::{
    Error,
    debts::{self, Saved},
    instance::read_only::View,
    pins::ownership,
    sys::host,
};

use self::format::FormatError;

/// Shorter debts are left out. A reboot takes longer than most of them.
const LEAST: Duration = Duration::from_secs(10);

/// Why the file was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file cannot be used.
    #[error("{}: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: FileError,
    },
    /// The file has another content.
    #[error("{}: {cause}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: FormatError,
    },
    /// Another daemon writes it.
    #[error("the state file {} is that of another daemon: write another path into [state]", .0.display())]
    Taken(PathBuf),
    /// The thread that writes it has failed.
    #[error("the thread that writes it has failed")]
    Thread,
    /// The thread that writes it has not ended.
    #[error("writing takes longer than {} seconds", .0.as_secs())]
    Slow(Duration),
    /// The maps cannot be read, or another user could replace the file.
    #[error(transparent)]
    Other(#[from] Error),
}

/// The state file of this daemon. No other daemon may have the same one, since each replaces the snapshots of the other.
#[derive(Debug, Clone)]
pub struct Owned {
    path: PathBuf,
    /// None if the file cannot be locked. Then it cannot be written either, which the next snapshot tells.
    lock: Option<Arc<FileLock>>,
}

impl Owned {
    /// Takes a file for this daemon, which may have one `now`.
    ///
    /// # Errors
    ///
    /// Fails if another daemon has it.
    pub fn take(path: &Path, now: Option<&Self>) -> Result<Self, StateError> {
        if let Some(now) = now.filter(|now| now.path == path && now.lock.is_some()) {
            return Ok(now.clone());
        }
        // In a folder of other users, any of them could keep the lock.
        let lock = match check_folder(path).is_ok().then(|| FileLock::take(path)) {
            Some(Ok(None)) => return Err(StateError::Taken(path.to_owned())),
            Some(Ok(lock)) => lock.map(Arc::new),
            Some(Err(_)) | None => None,
        };
        Ok(Self { path: path.to_owned(), lock })
    }
}

/// Returns what the file has, without what has ended since. Without a file, that is nothing.
///
/// # Errors
///
/// Fails if other users could have written the file, or if any of it is wrong.
pub fn load(path: &Path) -> Result<Saved, StateError> {
    check_folder(path)?;
    let text = guarded::read(path).map_err(of_file(path))?;
    let Some(text) = text else { return Ok(Saved::default()) };
    format::parse(&text, host::wall()).map_err(|cause| StateError::Content { path: path.to_owned(), cause })
}

/// Writes the debts and bans of the instance in `pins`. Without an instance, the file stays, and there is no result.
/// Returns how many debts were left out, because there are too many.
///
/// # Errors
///
/// Fails if the maps cannot be read, or the file cannot be written. Also fails if there is another file in its place. The
/// file stays as it was then.
pub fn save(pins: &Path, path: &Path) -> Result<Option<usize>, StateError> {
    let view = match View::open(pins) {
        Err(Error::NotAttached(_) | Error::Interrupted) => return Ok(None),
        view => view?,
    };
    check_folder(path)?;
    match guarded::check_beginning(path, format::BEGINNING) {
        Err(FileError::Other) if damaged::is_no_text(path) => {
            let aside = damaged::set_aside(path).map_err(|error| of_file(path)(error.into()))?;
            say(Level::Warning, &format!("the state file was damaged, and has the name {} now", aside.display()));
        }
        beginning => beginning.map_err(of_file(path))?,
    }
    // Reading takes time, which counts. So this comes first.
    let now = host::wall();
    let (saved, left_out) = debts::read::read(view.tables(), LEAST, format::MOST_DEBTS)?;
    guarded::replace(path, |out| format::write(&saved, now, out)).map_err(|cause| of_file(path)(cause.into()))?;
    Ok(Some(left_out))
}

/// Checks that no other user could replace the file.
fn check_folder(path: &Path) -> Result<(), Error> {
    ownership::check(path.parent().unwrap_or(path)).map(|_| ())
}

fn of_file(path: &Path) -> impl FnOnce(FileError) -> StateError {
    |cause| StateError::File { path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_state_file_has_one_daemon() {
        let folder = std::env::temp_dir().join(format!("ratelimit-owned-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("state");
        let first = Owned::take(&path, None).unwrap();
        let again = Owned::take(&path, Some(&first)).unwrap();
        let other = Owned::take(&folder.join("other"), Some(&first)).unwrap();
        assert!(matches!(Owned::take(&path, Some(&other)), Err(StateError::Taken(_))));
        drop(first);
        assert!(matches!(Owned::take(&path, None), Err(StateError::Taken(_))));
        drop(again);
        assert!(Owned::take(&path, None).is_ok());
        // A folder that does not exist is told with the first snapshot.
        assert!(Owned::take(&folder.join("missing/state"), None).is_ok());
        fs::remove_dir_all(folder).unwrap();
    }
}
