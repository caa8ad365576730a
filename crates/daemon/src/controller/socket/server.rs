//! Sockets of processes that answer. There is one process for each socket.

use std::{
    fs, io,
    os::unix::{
        fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
        net::UnixListener as Bound,
    },
    path::{Path, PathBuf},
};

use ratelimit_dataplane::{pins::ownership, sys::lock_holder::Holder};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use tokio::net::UnixListener;

use super::{
    client::SocketError,
    folder::{CONFIRM, DAEMON, METRICS, folder},
};

/// The largest request in bytes.
pub const REQUEST_MOST: u64 = 1_024;

/// The mode of a folder that its group can open.
const FOLDER_MODE: u32 = 0o750;

/// The mode of the file of a lock.
const LOCK_MODE: u32 = 0o600;

/// The socket of a process that answers, which no other process can take.
#[derive(Debug)]
pub struct Server {
    /// Accepts the connections of commands.
    pub listener: UnixListener,
    /// Keeps other processes out.
    pub lock: Lock,
}

/// The lock of a socket. Dropping it removes the socket.
#[derive(Debug)]
pub struct Lock {
    socket: PathBuf,
    path: PathBuf,
    /// Whether this process created the folder, and so removes it.
    has_made_folder: bool,
    _file: fs::File,
}

impl Server {
    /// Takes the socket of this name.
    pub fn take(pins: &Path, name: &str) -> Result<Self, SocketError> {
        let folder = folder(pins, name);
        let at = |path: &Path| {
            let path = path.to_owned();
            move |cause| SocketError::System { path, cause }
        };
        let (lock_path, socket) = (folder.join(name).with_extension("lock"), folder.join(name));
        let taken = |holder| match name {
            CONFIRM => SocketError::SecondConfirm(holder),
            _ => SocketError::SecondDaemon { pins: pins.to_owned(), holder },
        };
        let mut has_made_folder = false;
        let lock = loop {
            // An existing folder keeps its mode, so that an administrator can decide who may ask. Others must not be able
            // to write to it. A new one belongs to the user and group of this process.
            match fs::DirBuilder::new().mode(FOLDER_MODE).create(&folder) {
                Ok(()) => {
                    has_made_folder = true;
                    fs::set_permissions(&folder, fs::Permissions::from_mode(FOLDER_MODE)).map_err(at(&folder))?;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(SocketError::NoFolder { path: folder, cause }),
            }
            ownership::check(&folder)?;
            let lock = match open_lock(&lock_path) {
                // The previous process has just removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                lock => lock.map_err(at(&lock_path))?,
            };
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Err(taken(Holder::of(&lock))),
                locked => locked.map_err(|error| at(&lock_path)(error.into()))?,
            }
            // The previous process may have removed the file before it was locked here.
            let locked = lock.metadata().map_err(at(&lock_path))?.ino();
            if fs::metadata(&lock_path).is_ok_and(|current| current.ino() == locked) {
                break lock;
            }
        };
        let listener = bind(&socket).and_then(|bound| {
            bound.set_nonblocking(true)?;
            UnixListener::from_std(bound)
        });
        let listener = listener.map_err(at(&socket))?;
        Ok(Self { listener, lock: Lock { socket, path: lock_path, has_made_folder, _file: lock } })
    }

    /// Binds the socket for metrics.
    pub fn metrics(&self) -> Result<Bound, SocketError> {
        let path = self.lock.socket.with_file_name(METRICS);
        bind(&path).map_err(|cause| SocketError::System { path, cause })
    }
}

/// Opens the file of a lock. Only its owner may, because every user who can open a file can lock it.
fn open_lock(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::File::options();
    options.write(true).create(true).truncate(false).mode(LOCK_MODE).custom_flags(libc::O_NOFOLLOW);
    let lock = options.open(path)?;
    // Earlier versions let the group open it.
    lock.set_permissions(fs::Permissions::from_mode(LOCK_MODE))?;
    Ok(lock)
}

/// Binds a socket for every user that can open the folder.
fn bind(path: &Path) -> io::Result<Bound> {
    // A killed process leaves its socket behind.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let bound = Bound::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    Ok(bound)
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The next process can work with what is left behind.
        if self.socket.file_name().is_some_and(|name| name == DAEMON) {
            let _ = fs::remove_file(self.socket.with_file_name(METRICS));
        }
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(&self.path);
        if self.has_made_folder {
            let _ = self.socket.parent().map(fs::remove_dir);
        }
    }
}
