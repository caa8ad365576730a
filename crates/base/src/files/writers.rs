//! Who else may change a file that this process obeys.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{self, Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx},
    process::geteuid,
};

use crate::{
    text::{excerpt::escaped, shell::quoted},
    unix_group::name_of,
};

/// Permissions to write for the group and for all users, in a mode.
const GROUP: u32 = 0o020;
const ALL: u32 = 0o002;

/// In a folder with this mode, users can rename and delete only what is theirs.
pub const STICKY: u32 = 0o1000;

/// The most symbolic links in a path, as in the kernel.
pub const MOST_LINKS: usize = 40;

/// Returns why another user may change one of these files, and what to do: a line for each command that is necessary,
/// and for each file that has to be elsewhere.
pub fn warnings<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Vec<String> {
    let mut commands = BTreeSet::new();
    let reasons = files.into_iter().filter_map(|file| others(file));
    let told = reasons.filter(|reason| reason.command.as_ref().is_none_or(|command| commands.insert(command.clone())));
    told.map(|Reason { why, command }| {
        let help = command.map_or_else(
            || "keep the file in a folder of root, such as /etc/ratelimit".to_owned(),
            |command| format!("run `{command}`"),
        );
        escaped(&format!("{why}: {help}"))
    })
    .collect()
}

/// Why another user may change a file.
struct Reason {
    why: String,
    /// What ends that. None if the file has to be elsewhere.
    command: Option<String>,
}

/// Returns the first reason why another user than root and this one may change a file. None if nobody may, or if the path
/// leads to no regular file.
fn others(file: &Path) -> Option<Reason> {
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
    reason
}

/// Returns why another user may change what is at a path, on the way to `file`.
fn reason_of(here: &Path, found: &Metadata, file: &Path) -> Option<Reason> {
    let reason = |why: String, command: String| Some(Reason { why, command: Some(command) });
    let (shown, word) = (here.display(), quoted(&here.display().to_string()));
    let what = if found.is_dir() { format!("{shown}, above {}", file.display()) } else { shown.to_string() };
    let owner = found.uid();
    if owner != 0 && owner != geteuid().as_raw() {
        let owner = name_in("/etc/passwd", owner);
        if found.is_dir() {
            // A user could not log in without his home.
            return Some(Reason { why: format!("{what}, belongs to user {owner}"), command: None });
        }
        let why = format!("{what} belongs to user {owner}, who may change it");
        return reason(why, format!("chown -h root {word}"));
    }
    let may_write = |mode: u32| found.mode() & mode != 0 && !found.is_symlink();
    if found.is_dir() && (found.mode() & STICKY != 0 || is_mounted_for_reading(here)) {
        None
    } else if may_write(ALL) {
        reason(format!("every user may change {what}"), format!("chmod o-w {word}"))
    } else if may_write(GROUP) && found.gid() != 0 {
        let group = name_in("/etc/group", found.gid());
        reason(format!("group {group} may change {what}"), format!("chmod g-w {word}"))
    } else {
        None
    }
}

/// Returns the name of a user or a group, or its number.
fn name_in(file: &str, id: u32) -> String {
    let lines = fs::read_to_string(file).unwrap_or_default();
    name_of(id, &lines).map_or_else(|| id.to_string(), str::to_owned)
}

/// Returns whether a folder is one that was mounted for reading only, as that of a ConfigMap of Kubernetes, which has the
/// mode 0777. For a service, systemd makes whole file systems read-only, which others can write.
fn is_mounted_for_reading(folder: &Path) -> bool {
    let Ok(found) = statx(CWD, folder, AtFlags::empty(), StatxFlags::BASIC_STATS | StatxFlags::MNT_ID) else {
        return false;
    };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) && is_for_reading(found.stx_mnt_id, &mounts)
}

/// Returns whether a mount is read-only and only a folder of a file system, or the whole file system is read-only, in the
/// lines of mountinfo(5).
fn is_for_reading(mount: u64, mounts: &str) -> bool {
    mounts.lines().any(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [id, _, _, root, _, options, .., system] = fields.as_slice() else { return false };
        let is_read_only = |options: &str| options.split(',').any(|option| option == "ro");
        id.parse() == Ok(mount) && (is_read_only(options) && *root != "/" || is_read_only(system))
    })
}

/// Returns the parts of a path without its root, in reverse order.
pub fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    parts
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file_system_is_for_reading_only_if_nobody_can_write_it() {
        let mounts = "41 29 8:2 / /srv ro,nosuid shared:1 master:2 - ext4 /dev/sda2 rw,errors=remount-ro\n\
                      42 29 8:3 / /media ro - iso9660 /dev/sr0 ro,map=n\n\
                      43 29 8:1 /var/lib/kubelet/a /etc/ratelimit ro,relatime - ext4 /dev/sda1 rw\n\
                      44 29 8:1 /var/lib/kubelet/a /var/a rw,relatime - ext4 /dev/sda1 rw\n";
        assert_eq!([41, 42, 43, 44, 45].map(|mount| is_for_reading(mount, mounts)), [false, true, true, false, false]);
    }
}
