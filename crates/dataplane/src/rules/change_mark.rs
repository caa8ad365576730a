//! Marks an unfinished change of rules or costs. Signals that would end the process wait until it is done. If the
//! process is killed all the same, or a step fails, the mark stays among the pins. Then the next command that opens the
//! instance finishes the change.

use std::path::{Path, PathBuf};

use crate::{
    Error,
    pins::layout::{self, CHANGING},
    rules::policies::lanes::LanePairs,
    sys::signals::Held,
};

/// The mark of one change. If it is dropped without an [end](Self::end), the mark stays.
pub struct ChangeMark {
    /// None if the maps are not pinned.
    mark: Option<PathBuf>,
    /// Whether an earlier change has left the mark.
    was_there: bool,
    /// Released last.
    _held: Held,
}

impl ChangeMark {
    /// Sets the mark before the first step.
    pub fn begin(pins: Option<&Path>) -> Result<Self, Error> {
        let (mark, held) = (pins.map(|pins| pins.join(CHANGING)), Held::hold()?);
        let is_new = mark.as_deref().map_or(Ok(true), layout::create_new_folder)?;
        Ok(Self { mark, was_there: !is_new, _held: held })
    }

    /// Records which levels must be raised when the change acts. A name of a folder holds each pair.
    pub fn record(&self, pairs: &LanePairs) -> Result<(), Error> {
        let Some(mark) = &self.mark else { return Ok(()) };
        pairs.iter().try_for_each(|(old, new)| layout::create_folder(&mark.join(format!("{old}-{new}"))))
    }

    /// Removes the mark after the last step. If it stays, the next command repeats the last steps, which is harmless.
    /// One that was there before stays.
    pub fn end(self) {
        let _ = self.mark.as_deref().filter(|_| !self.was_there).map(remove_folders);
    }
}

/// Returns what a killed change has [recorded](ChangeMark::record).
pub fn recorded(pins: &Path) -> Result<LanePairs, Error> {
    let pair = |folder: &PathBuf| {
        let (old, new) = folder.file_name()?.to_str()?.split_once('-')?;
        Some((old.parse().ok()?, new.parse().ok()?))
    };
    Ok(layout::entries(&pins.join(CHANGING))?.iter().filter_map(pair).collect())
}

/// Removes the mark.
pub fn remove(pins: &Path) -> Result<(), Error> {
    remove_folders(&pins.join(CHANGING))
}

fn remove_folders(mark: &Path) -> Result<(), Error> {
    // Most changes record nothing.
    if layout::remove_folder(mark).is_ok() {
        return Ok(());
    }
    layout::entries(mark)?.iter().try_for_each(|pair| layout::remove_folder(pair))?;
    layout::remove_folder(mark)
}
