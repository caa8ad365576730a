//! Sockets whose path and group the file names: for applications, and for what only reads.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _, chown},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use rustix::process::getegid;

use crate::dataplane::{self, pins::ownership};

/// Only the owner and the group may connect.
const MODE: u32 = 0o660;

/// Why the socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// Another user could put another file in its place.
    #[error(transparent)]
    Unsafe(#[from] dataplane::Error),
    /// The folder is missing.
    #[error("{} is no folder: create it, or let systemd do so with RuntimeDirectory= or tmpfiles.d", .0.display())]
    NoFolder(PathBuf),
    /// Something else is there.
    #[error("{} is there and is no socket: write another path", .0.display())]
    Other(PathBuf),
    /// Another process listens.
    #[error("another process listens on {}: write another path", .0.display())]
    Taken(PathBuf),
    /// The group does not exist.
    #[error("there is no group {0} in /etc/group: create it, or write its number")]
    NoGroup(String),
    /// The system refuses to give the socket to the group.
    #[error(
        "cannot give the socket to the group {group} ({cause}): add SupplementaryGroups={group} and SystemCallFilter=@chown to the unit"
    )]
    Group {
        /// The group.
        group: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// The system refuses.
    #[error("{}: {cause}", .path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
}

/// A socket that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) listener: UnixListener,
    pub(super) file: File,
}

/// The file of a socket.
#[derive(Debug)]
pub(super) struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        // The next daemon can work with what is left behind.
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes the socket at a path for a group. Without one, it is for the group of this process.
pub(super) fn bind(path: &Path, group: Option<&str>) -> Result<Bound, SocketError> {
    let path = path.to_owned();
    let at = |cause| SocketError::System { path: path.clone(), cause };
    let folder = path.parent().unwrap_or(Path::new("/"));
    if ownership::check(folder)?.is_none() {
        return Err(SocketError::NoFolder(folder.to_owned()));
    }
    let group = group.map(Group::named).transpose()?;
    match fs::symlink_metadata(&path) {
        Ok(there) if !there.file_type().is_socket() => return Err(SocketError::Other(path)),
        Ok(_) if UnixStream::connect(&path).is_ok() => return Err(SocketError::Taken(path)),
        // A killed daemon leaves its socket behind.
        Ok(_) => fs::remove_file(&path).map_err(at)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(at(error)),
    }
    let listener = UnixListener::bind(&path).map_err(at)?;
    let file = File(path.clone());
    listener.set_nonblocking(true).map_err(at)?;
    if let Some(group) = group {
        give(&path, &group)?;
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(MODE)).map_err(at)?;
    Ok(Bound { listener, file })
}

/// Gives the socket at a path to a group.
pub(super) fn give(path: &Path, Group { name, number }: &Group) -> Result<(), SocketError> {
    chown(path, None, Some(*number)).map_err(|cause| SocketError::Group { group: name.clone(), cause })
}

/// A group that exists.
#[derive(Debug)]
pub(crate) struct Group {
    name: String,
    number: u32,
}

impl Group {
    /// Finds a group by its name or number.
    pub(crate) fn named(name: &str) -> Result<Self, SocketError> {
        let groups = || fs::read_to_string("/etc/group").unwrap_or_default();
        let number = name.parse().ok().or_else(|| named(name, &groups()));
        number.map(|number| Self { name: name.to_owned(), number }).ok_or_else(|| SocketError::NoGroup(name.to_owned()))
    }

    /// Returns its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Finds this group, or that of this process.
    pub(super) fn of(name: Option<&str>) -> Result<Self, SocketError> {
        name.map_or_else(|| Ok(Self::own()), Self::named)
    }

    /// Returns the group of this process, which has a socket without another one.
    fn own() -> Self {
        let number = getegid().as_raw();
        Self { name: number.to_string(), number }
    }
}

/// Returns the number of a group in the lines of group(5).
fn named(group: &str, groups: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == group).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_name() {
        let groups = "root:x:0:\nratelimit-check:x:991:www-data\nbroken\n";
        assert_eq!([named("ratelimit-check", groups), named("www-data", groups)], [Some(991), None]);
    }
}
