//! Who else may change a file that this process obeys.

use std::{
    ffi::OsString,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{self, Component, Path, PathBuf},
};

use rustix::process::geteuid;

use crate::text::{excerpt::escaped, shell::quoted};

/// Permissions to write for the group and for all users, in a mode.
const GROUP: u32 = 0o020;
const ALL: u32 = 0o002;

/// In a folder with this mode, users can rename and delete only what is theirs.
const STICKY: u32 = 0o1000;

/// The most symbolic links in a path, as in the kernel.
const MOST_LINKS: usize = 40;

/// Returns the first reason why another user than root and this one may change a file, and what to do, in one line. None
/// if nobody may, or if the path leads to no regular file.
pub fn others(file: &Path) -> Option<String> {
    if !fs::metadata(file).ok()?.is_file() {
        return None;
    }
    let mut left = parts(&path::absolute(file).ok()?);
    let (mut here, mut links) = (PathBuf::from("/"), 0);
    let mut reason = None;
    while let Some(part) = left.pop() {
        if part == ".." {
            here.pop();
            continue;
        }
        here.push(part);
        let found = fs::symlink_metadata(&here).ok()?;
        reason = reason.or_else(|| reason_of(&here, &found, file));
        if found.is_symlink() {
            links += 1;
            let target = fs::read_link(&here).ok().filter(|_| links <= MOST_LINKS)?;
            left.extend(parts(&target));
            here = if target.is_absolute() { PathBuf::from("/") } else { here.parent()?.to_owned() };
        }
    }
    reason.map(|reason| escaped(&reason))
}

/// Returns why another user may change what is at a path, on the way to `file`.
fn reason_of(here: &Path, found: &Metadata, file: &Path) -> Option<String> {
    let (shown, word) = (here.display(), quoted(&here.display().to_string()));
    let what = if found.is_dir() { format!("{shown}, above {},", file.display()) } else { shown.to_string() };
    let owner = found.uid();
    if owner != 0 && owner != geteuid().as_raw() {
        return Some(format!("{what} belongs to user {owner}, who may change it: run `chown -h root {word}`"));
    }
    let may_write = |mode: u32| found.mode() & mode != 0 && !found.is_symlink();
    if found.is_dir() && found.mode() & STICKY != 0 {
        None
    } else if may_write(ALL) {
        Some(format!("every user may change {what}: run `chmod o-w {word}`"))
    } else if may_write(GROUP) && found.gid() != 0 {
        Some(format!("group {} may change {what}: run `chmod g-w {word}`", found.gid()))
    } else {
        None
    }
}

/// Returns the parts of a path without its root, in reverse order.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    parts
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}
