//! Who can change the pins. A folder, a lock or a pin is used only if it belongs to root or to this process's user, and
//! if no other user can put another one in its place.
//!
//! | object | must belong to root or to this user | may others write to it? |
//! |---|---|---|
//! | each folder above the pins | yes | only if it is sticky, as `/tmp` is: then they cannot rename or delete what is not theirs |
//! | each symbolic link in the path | yes | does not matter: a link cannot be written to |
//! | the folder of the pins, and those in it | yes | no, not even if it is sticky: others could add names that commands look for, such as `next` |
//! | each pin | yes | does not matter: opening one needs access to its folder |
//!
//! The folders above are checked first, and each pin before it is opened. So nobody can change what was checked. Maps
//! other than CONTROL are checked when their layouts are: afterwards, their numbers are sealed in CONTROL, so that
//! another pin in the place of one is noticed.

use std::{
    ffi::OsString,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{self, Path, PathBuf},
};

use ratelimit_base::files::writers::{MOST_LINKS, STICKY, parts};
use rustix::{io::Errno, process::geteuid};

use crate::{
    Error,
    error::{PinsError, at},
};

/// Permissions to write for the group and for all users.
const OTHERS_WRITE: u32 = 0o022;

/// Folders of the system, in which no user can create, rename or delete anything.
const OF_SYSTEM: [&str; 2] = ["/sys", "/sys/fs"];

/// Checks the way to a folder, and the folder itself. Returns its inode, or none if it does not exist. `/` is what a
/// system trusts.
///
/// # Errors
///
/// [`Error::Pins`] with the first object that another user could change.
pub fn check(folder: &Path) -> Result<Option<u64>, Error> {
    let whole = path::absolute(folder).map_err(at(folder))?;
    let mut left: Vec<OsString> = parts(&whole);
    let (mut here, mut found, mut links) = (PathBuf::from("/"), None, 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            here.pop();
            found = None;
            continue;
        }
        here.push(part);
        if OF_SYSTEM.iter().any(|folder| here == Path::new(folder)) {
            found = None;
            continue;
        }
        let Some(next) = look(&here)? else { return Ok(None) };
        check_owner(&here, next.uid())?;
        if next.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(at(&here)(Errno::LOOP.into()));
            }
            let target = fs::read_link(&here).map_err(at(&here))?;
            left.extend(parts(&target));
            if target.is_absolute() {
                here = PathBuf::from("/");
            } else {
                here.pop();
            }
            found = None;
            continue;
        }
        if next.mode() & OTHERS_WRITE != 0 && next.mode() & STICKY == 0 {
            return Err(PinsError::Writable(here).into());
        }
        found = Some(next);
    }
    let Some(found) = found.map_or_else(|| look(&here), |found| Ok(Some(found)))? else { return Ok(None) };
    check_found(&here, &found)?;
    Ok(Some(found.ino()))
}

/// Checks a folder in the folder of the pins, if it exists.
///
/// # Errors
///
/// [`Error::Pins`] if another user could change what is in it.
pub fn check_folder(folder: &Path) -> Result<(), Error> {
    look(folder)?.map_or(Ok(()), |found| check_found(folder, &found))
}

fn check_found(folder: &Path, found: &Metadata) -> Result<(), Error> {
    check_owner(folder, found.uid())?;
    if found.mode() & OTHERS_WRITE == 0 { Ok(()) } else { Err(PinsError::Writable(folder.to_owned()).into()) }
}

/// Checks a file in a folder that other users cannot write to.
///
/// # Errors
///
/// [`Error::Pins`] if it belongs to another user.
pub fn check_file(path: &Path) -> Result<(), Error> {
    look(path)?.map_or(Ok(()), |found| check_owner(path, found.uid()))
}

/// Returns what is at a path, without following a link. If this user may not know it, the attempt to open it fails too,
/// and tells the reason.
fn look(path: &Path) -> Result<Option<Metadata>, Error> {
    match fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => Ok(None),
        found => found.map(Some).map_err(at(path)),
    }
}

fn check_owner(path: &Path, owner: u32) -> Result<(), Error> {
    let is_ours = owner == 0 || owner == geteuid().as_raw();
    if is_ours { Ok(()) } else { Err(PinsError::Foreign { path: path.to_owned(), owner }.into()) }
}
