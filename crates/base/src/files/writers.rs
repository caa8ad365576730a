//! Who else may change a file that this process obeys.

use std::{
    ffi::OsString,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{self, Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, StatVfsMountFlags, StatxAttributes, StatxFlags, statvfs, statx},
    process::geteuid,
};

use crate::text::{excerpt::escaped, shell::quoted};

/// Permissions to write for the group and for all users, in a mode.
const GROUP: u32 = 0o020;
const ALL: u32 = 0o002;

/// In a folder with this mode, users can rename and delete only what is theirs.
const STICKY: u32 = 0o1000;

/// The words before the command of a warning.
const RUN: &str = ": run `";

/// The most symbolic links in a path, as in the kernel.
const MOST_LINKS: usize = 40;

/// Returns why another user may change one of these files, and what to do: a line for each command that is necessary.
pub fn warnings<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    for warning in files.into_iter().filter_map(|file| others(file)) {
        let command = |warning: &str| warning.split_once(RUN).map(|(_, command)| command.to_owned());
        if warnings.iter().all(|earlier| command(earlier) != command(&warning)) {
            warnings.push(warning);
        }
    }
    warnings
}

/// Returns the first reason why another user than root and this one may change a file, and what to do, in one line. None
/// if nobody may, or if the path leads to no regular file.
fn others(file: &Path) -> Option<String> {
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
        return Some(format!("{what} belongs to user {owner}, who may change it{RUN}chown -h root {word}`"));
    }
    let may_write = |mode: u32| found.mode() & mode != 0 && !found.is_symlink();
    if found.is_dir() && (found.mode() & STICKY != 0 || is_mounted_for_reading(here)) {
        None
    } else if may_write(ALL) {
        Some(format!("every user may change {what}{RUN}chmod o-w {word}`"))
    } else if may_write(GROUP) && found.gid() != 0 {
        Some(format!("group {} may change {what}{RUN}chmod g-w {word}`", found.gid()))
    } else {
        None
    }
}

/// Returns whether a folder is one that was mounted for reading only, as that of a ConfigMap of Kubernetes, which has the
/// mode 0777. For a service, systemd makes whole file systems read-only, which others can write.
fn is_mounted_for_reading(folder: &Path) -> bool {
    let is_root = statx(CWD, folder, AtFlags::empty(), StatxFlags::BASIC_STATS)
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    is_root && statvfs(folder).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Returns the parts of a path without its root, in reverse order.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    parts
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}
