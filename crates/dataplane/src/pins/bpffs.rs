//! The BPF file system, which holds the pins.

use std::{
    os::fd::OwnedFd,
    path::{Component, Path},
};

use rustix::mount::{MountFlags, mount};

use crate::{Error, error::PinsError, pins::layout::PINS, sys::namespace};

/// Returns whether a folder can hold pins: it is on a BPF file system.
#[must_use]
pub fn can_pin(pins: &Path) -> bool {
    pins.parent().is_some_and(is_at)
}

/// Returns where to mount one for these pins. Only the usual place and folders below it qualify, because a mount hides
/// the contents of the folder.
#[must_use]
pub fn mount_point(pins: &Path) -> Option<&Path> {
    let usual = Path::new(PINS).parent()?;
    let leads_back = pins.components().any(|part| part == Component::ParentDir);
    pins.parent().filter(|folder| folder.starts_with(usual) && !leads_back)
}

/// Makes sure that `pins` is on a BPF file system, or can be created on one. Mounts the usual one if it is missing, unless
/// the mount would end with this process.
pub fn ensure(pins: &Path) -> Result<(), Error> {
    let parent = pins.parent().unwrap_or(pins);
    if is_at(parent) {
        return Ok(());
    }
    if !pins.is_absolute() || !parent.is_dir() || is_at(pins) {
        return Err(PinsError::Folder(pins.to_owned()).into());
    }
    let usual = Path::new(PINS).parent().unwrap_or(parent);
    // Without a mode, every user could create folders in it.
    let mounted = parent == usual
        && !namespace::has_own_mounts()
        && mount("bpf", usual, "bpf", MountFlags::empty(), Some(c"mode=0700")).is_ok();
    if mounted { Ok(()) } else { Err(missing(pins)) }
}

/// Checks that the mounts of this process show the BPF file system of the host, where an instance may be.
pub fn check_visible(pins: &Path) -> Result<(), Error> {
    let is_hidden = !can_pin(pins) && mount_point(pins).is_some() && outside().is_some();
    if is_hidden { Err(missing(pins)) } else { Ok(()) }
}

/// Returns the error that says how to mount one.
pub fn missing(pins: &Path) -> Error {
    let advice = match (mount_point(pins), outside()) {
        (Some(_), Some(advice)) => {
            format!("one that is mounted here ends with this command, and all limits with it: {advice}")
        }
        (Some(folder), None) => format!("mount one with `mount -t bpf -o mode=0700 bpf {}`", folder.display()),
        (None, _) => format!("give a folder on one, such as `--pins {PINS}`"),
    };
    PinsError::NoBpffs { path: pins.to_owned(), advice }.into()
}

/// Returns how to run the command where a mount does not end with it. None if that is here.
#[must_use]
pub fn outside() -> Option<String> {
    let advice = |name: Option<String>| match name {
        Some(name) => format!("ratelimit --netns {name} … without `ip netns exec`"),
        None => "run ratelimit outside of this mount namespace".to_owned(),
    };
    namespace::has_own_mounts().then(|| advice(namespace::current()))
}

/// Returns whether a path is on a BPF file system.
pub fn is_at(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|stat| stat.f_type == libc::BPF_FS_MAGIC)
}

/// Returns whether an open folder is on a BPF file system.
pub fn is_on(folder: &OwnedFd) -> bool {
    rustix::fs::fstatfs(folder).is_ok_and(|stat| stat.f_type == libc::BPF_FS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_mounted_over_what_is_in_use() {
        let of = |pins: &'static str| mount_point(Path::new(pins));
        assert_eq!(of(PINS), Some(Path::new("/sys/fs/bpf")));
        assert_eq!(of("/sys/fs/bpf/a/b"), Some(Path::new("/sys/fs/bpf/a")));
        for pins in [
            "/ratelimit",
            "/",
            "",
            "ratelimit",
            "/var/ratelimit",
            "/sys/fs/bpf",
            "/sys/fs/bpf/../ratelimit",
            "/sys/fs/bpf2/x",
        ] {
            assert_eq!(of(pins), None, "{pins}");
        }
    }
}
