//! Sockets whose path and group the file names: for applications, and for what only reads.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _, chown},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use ratelimit_base::unix_group::{Group, NoGroup};
use ratelimit_dataplane::{self as dataplane, pins::ownership};

/// Only the owner and the group may connect.
const MODE: u32 = 0o660;

/// Why the socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
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
    #[error(transparent)]
    NoGroup(#[from] NoGroup),
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
pub(super) fn give(path: &Path, group: &Group) -> Result<(), SocketError> {
    chown(path, None, Some(group.number()))
        .map_err(|cause| SocketError::Group { group: group.name().to_owned(), cause })
}
