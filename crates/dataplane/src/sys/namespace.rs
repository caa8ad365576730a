//! Network namespaces by name, and mount namespaces that end with a command.

use std::{
    fs,
    os::{fd::AsFd as _, unix::fs::MetadataExt as _},
    path::PathBuf,
    sync::OnceLock,
};

use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use crate::{error::NamespaceError, sys::ancestors};

/// The folder in which `ip netns` keeps named network namespaces.
const NAMED: &str = "/run/netns";

/// The name of the network namespace that this process was moved into. A process without privileges cannot find it.
static ENTERED: OnceLock<String> = OnceLock::new();

/// Moves this process into a network namespace. It keeps its mounts, unlike under `ip netns exec`. No other thread may
/// run yet: it would stay behind.
///
/// # Errors
///
/// [`NamespaceError`] if there is no such namespace, or if this process may not enter it.
pub fn enter(name: &str) -> Result<(), NamespaceError> {
    let path = if name.contains('/') { PathBuf::from(name) } else { PathBuf::from(NAMED).join(name) };
    let failed = |error: Errno| match error {
        Errno::NOENT | Errno::NOTDIR => NamespaceError::Missing(name.to_owned()),
        Errno::INVAL => NamespaceError::Other(name.to_owned()),
        error => NamespaceError::Refused { name: name.to_owned(), cause: error.into() },
    };
    let namespace = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).map_err(failed)?;
    let known = current().filter(|current| !current.contains('/'));
    let _ = ENTERED.set(known.unwrap_or_else(|| name.rsplit('/').next().unwrap_or(name).to_owned()));
    Ok(())
}

/// Returns the name of the network namespace that this process was moved into, or else the one of [`current`].
pub fn name() -> Option<String> {
    ENTERED.get().cloned().or_else(current)
}

/// Returns the word for `--netns` that names the network namespace of this process: its name, or the path of a process
/// in it. None if it is that of an ancestor.
pub fn current() -> Option<String> {
    let own = number("/proc/self/ns/net")?;
    if !differs_from_ancestors("net") {
        return None;
    }
    let mut named = fs::read_dir(NAMED).into_iter().flatten().flatten();
    let named = named.find(|entry| entry.path().to_str().and_then(number) == Some(own));
    let name = named.and_then(|entry| entry.file_name().into_string().ok());
    Some(name.unwrap_or_else(|| "/proc/PID/ns/net".to_owned()))
}

/// Returns whether the mounts of this process differ from those of a process that it descends from, as under `ip netns
/// exec` and `unshare --mount`. Then a mount ends with the last process that can see it. A process in a container does
/// not see those outside. Without the privilege to look at them, this returns false.
pub fn has_own_mounts() -> bool {
    differs_from_ancestors("mnt")
}

fn differs_from_ancestors(kind: &str) -> bool {
    let Some(own) = number(&format!("/proc/self/ns/{kind}")) else { return false };
    let mut others = ancestors::of_this().filter_map(|process| number(&format!("/proc/{process}/ns/{kind}")));
    others.any(|other| other != own)
}

fn number(path: &str) -> Option<u64> {
    fs::metadata(path).ok().map(|file| file.ino())
}
