//! The state file: debts and bans as they outlast a reboot. How they are read from the maps and written to them belongs to
//! `dataplane`. When the file is written belongs to `daemon`.

pub(crate) mod file;
mod format;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use self::{file::FileError, format::FormatError};
use crate::dataplane::{
    Error,
    debts::{self, Saved},
    instance::read_only::View,
    pins::ownership,
    sys::host,
};

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

/// Returns what the file has, without what has ended since. Without a file, that is nothing.
///
/// # Errors
///
/// Fails if other users could have written the file, or if any of it is wrong.
pub fn load(path: &Path) -> Result<Saved, StateError> {
    check_folder(path)?;
    let text = file::read(path).map_err(of_file(path))?;
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
        Err(Error::NotAttached | Error::Interrupted) => return Ok(None),
        view => view?,
    };
    check_folder(path)?;
    file::check_beginning(path, format::BEGINNING).map_err(of_file(path))?;
    // Reading takes time, which counts. So this comes first.
    let now = host::wall();
    let (saved, left_out) = debts::read::read(view.tables(), LEAST, format::MOST_DEBTS)?;
    file::replace(path, |out| format::write(&saved, now, out)).map_err(|cause| of_file(path)(cause.into()))?;
    Ok(Some(left_out))
}

/// Checks that no other user could replace the file.
fn check_folder(path: &Path) -> Result<(), Error> {
    ownership::check(path.parent().unwrap_or(path)).map(|_| ())
}

fn of_file(path: &Path) -> impl FnOnce(FileError) -> StateError {
    |cause| StateError::File { path: path.to_owned(), cause }
}
