//! The copy of a list, and what is known of it.

use std::{
    fs::DirBuilder,
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use crate::{config::daemon::kept::Kept, controller::state::file, dataplane::pins::ownership};

/// Permissions for the owner alone.
const MODE: u32 = 0o700;

/// Makes the folder of a copy, unless it is there.
pub(super) fn make_folder(copy: &Path) -> io::Result<()> {
    copy.parent().map_or(Ok(()), |folder| DirBuilder::new().recursive(true).mode(MODE).create(folder))
}

/// Keeps a list as the copy, and what is known of it. Without a list, the copy stays. Equal content does not replace the
/// copy, so that nothing is applied again.
pub(super) fn keep(copy: &Path, list: Option<&[u8]>, kept: &Kept) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("the copy {} cannot be written: {error}", copy.display());
    make_folder(copy).map_err(|error| failed(&error))?;
    ownership::check(copy.parent().unwrap_or(copy)).map_err(|error| failed(&error))?;
    let write = |path: &Path, bytes: &[u8]| file::replace(path, |out| out.write_all(bytes));
    if let Some(list) = list.filter(|list| !is_same(copy, list)) {
        write(copy, list).map_err(|error| failed(&error))?;
    }
    // If this fails, the next request brings the same list again.
    let kept = serde_json::to_vec(kept).map_err(|error| failed(&error))?;
    write(&Kept::path(copy), &kept).map_err(|error| failed(&error))
}

/// Returns whether the copy has this content.
pub(super) fn is_same(copy: &Path, list: &[u8]) -> bool {
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(copy);
    let Ok(file) = opened else { return false };
    let mut bytes = Vec::new();
    file.take(list.len() as u64 + 1).read_to_end(&mut bytes).is_ok_and(|_| bytes == list)
}
