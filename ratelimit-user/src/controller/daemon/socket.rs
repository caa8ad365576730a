//! The sockets through which commands ask processes that stay, and that there is one of each.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
        net::{UnixListener as Bound, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use tokio::net::UnixListener;

pub use crate::controller::daemon::request::{Answer, Caller, Request};
use crate::dataplane::instance::open::PINS;

/// Where the folders of sockets are.
const RUN: &str = "/run";

/// What their names begin with.
const OUR_NAME: &str = "ratelimit";

/// The daemon's socket, in that folder.
pub const DAEMON: &str = "socket";

/// The daemon's socket that numbers are asked for.
const METRICS: &str = "metrics";

/// That of an attach that waits to be confirmed.
pub const CONFIRM: &str = "confirm";

/// Bytes that a request may have.
pub(crate) const REQUEST_MOST: u64 = 1_024;

/// A folder that its group may look into.
const FOLDER_MODE: u32 = 0o750;

/// How long is waited for what is only shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Nobody listens.
    #[error("no daemon runs for {}: start one with `ratelimit run -c FILE`", .0.display())]
    NoDaemon(PathBuf),
    /// Another one is there.
    #[error("a daemon runs for {} already: `ratelimit reload` has it read its file again", .0.display())]
    SecondDaemon(PathBuf),
    /// Another attach waits.
    #[error("an attach waits for `ratelimit confirm` already: confirm that one first, or let it be taken back")]
    SecondConfirm,
    /// Neither root nor one of its group.
    #[error("this daemon answers only {0}: try with sudo")]
    Refused(String),
    /// It ended before it answered, or says what cannot be understood.
    #[error("the daemon gave no answer: see what it has printed")]
    NoAnswer,
    /// There can be no socket.
    #[error("{}: {cause}: the daemon needs a folder of its own there for its socket, so give it a /run that it can write to, such as a tmpfs", .path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The system refuses.
    #[error("{}: {cause}", .path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What it said.
        cause: io::Error,
    },
}

/// The folder of this socket of the instance with these pins, where processes keep such things. Its name begins with ours, whatever the pins are called.
///
/// Who waits to be confirmed has one of its own: a service manager removes the daemon's when the daemon ends. Names of pins have no dots.
fn folder(pins: &Path, socket: &str) -> PathBuf {
    let mut name = OUR_NAME.to_owned();
    if pins != Path::new(PINS) {
        let of_pins = pins.file_name().unwrap_or_default();
        name += &format!("-{}", of_pins.to_string_lossy());
    }
    if socket == CONFIRM {
        name += ".confirm";
    }
    Path::new(RUN).join(name)
}

/// The one place of a process that answers.
#[derive(Debug)]
pub(crate) struct Place {
    /// Commands come in here.
    pub(crate) listener: UnixListener,
    /// Keeps others out.
    pub(crate) lock: Lock,
}

/// That a place is taken, whether or not anybody listens. Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    socket: PathBuf,
    path: PathBuf,
    /// Whether the folder is its own to remove.
    has_made_folder: bool,
    _file: fs::File,
}

impl Place {
    /// Takes the one of this name.
    pub(crate) fn take(pins: &Path, name: &str) -> Result<Self, SocketError> {
        let folder = folder(pins, name);
        let at = |path: &Path| {
            let path = path.to_owned();
            move |cause| SocketError::System { path, cause }
        };
        let (lock_path, socket) = (folder.join(name).with_extension("lock"), folder.join(name));
        let taken =
            || if name == CONFIRM { SocketError::SecondConfirm } else { SocketError::SecondDaemon(pins.to_owned()) };
        let mut has_made_folder = false;
        let lock = loop {
            // Whoever else has made it knows who may look into it. Otherwise owner and group are those of this process: root, and the group that may ask.
            match fs::DirBuilder::new().mode(FOLDER_MODE).create(&folder) {
                Ok(()) => {
                    has_made_folder = true;
                    fs::set_permissions(&folder, fs::Permissions::from_mode(FOLDER_MODE)).map_err(at(&folder))?;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(SocketError::NoFolder { path: folder, cause }),
            }
            let lock = match fs::File::create(&lock_path) {
                // The last one that was there has just removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                lock => lock.map_err(at(&lock_path))?,
            };
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Err(taken()),
                locked => locked.map_err(|error| at(&lock_path)(error.into()))?,
            }
            // One that was just ending may have removed it in between.
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

    /// The socket that numbers are asked for.
    pub(crate) fn metrics(&self) -> Result<Bound, SocketError> {
        let path = self.lock.socket.with_file_name(METRICS);
        bind(&path).map_err(|cause| SocketError::System { path, cause })
    }
}

/// A socket for whoever may open the folder.
fn bind(path: &Path) -> io::Result<Bound> {
    // One that was killed has left its own.
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
        // Whoever starts next finds what is left, and copes.
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

/// Whether a daemon listens for the instance with these pins.
#[must_use]
pub fn is_listening(pins: &Path) -> bool {
    let refused = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    UnixStream::connect(folder(pins, DAEMON).join(DAEMON))
        .map_or_else(|error| !refused.contains(&error.kind()), |_| true)
}

/// Asks who listens at this socket of the instance with these pins.
///
/// # Errors
///
/// [`SocketError`] where there is none, or no answer.
pub fn ask(pins: &Path, name: &str, request: Request) -> Result<Answer, SocketError> {
    let mut stream = connect(pins, name)?;
    if matches!(request, Request::Left | Request::Gone) {
        // Who only wants to know does not wait for one that is stopped.
        let _ = stream.set_read_timeout(Some(PATIENCE));
    }
    let mut answer = String::new();
    let asked = serde_json::to_string(&request).map_err(io::Error::from).and_then(|line| writeln!(stream, "{line}"));
    let mut reader = BufReader::new(stream);
    let read = asked.and_then(|()| reader.read_line(&mut answer));
    // Who has nothing to do any more keeps it open until it has let go of everything.
    let _ = io::copy(&mut reader, &mut io::sink());
    read.ok().and_then(|_| serde_json::from_str(&answer).ok()).ok_or(SocketError::NoAnswer)
}

/// Connects to the socket that numbers are asked for.
pub(crate) fn connect_to_metrics(pins: &Path) -> Result<UnixStream, SocketError> {
    connect(pins, METRICS)
}

fn connect(pins: &Path, name: &str) -> Result<UnixStream, SocketError> {
    let folder = folder(pins, name);
    let path = folder.join(name);
    UnixStream::connect(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => SocketError::NoDaemon(pins.to_owned()),
        io::ErrorKind::PermissionDenied => SocketError::Refused(who_may(&folder)),
        _ => SocketError::System { path, cause: error },
    })
}

/// Who may ask the daemon with this folder, in words.
fn who_may(folder: &Path) -> String {
    let group = fs::metadata(folder).map(|folder| folder.gid()).unwrap_or(0);
    if group == 0 {
        return "root".to_owned();
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    format!("root and the group {}", name_of(group, &groups).unwrap_or(&group.to_string()))
}

/// The name of a group in the lines of group(5).
fn name_of(group: u32, groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(group)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_has_folders_of_its_own_and_nobody_elses() {
        let folder = |pins: &str, socket: &str| folder(Path::new(pins), socket).display().to_string();
        assert_eq!(folder(PINS, DAEMON), "/run/ratelimit");
        assert_eq!(folder(PINS, METRICS), "/run/ratelimit");
        assert_eq!(folder(PINS, CONFIRM), "/run/ratelimit.confirm");
        assert_eq!(folder("/sys/fs/bpf/systemd", DAEMON), "/run/ratelimit-systemd");
        assert_eq!(folder("/sys/fs/bpf/systemd", CONFIRM), "/run/ratelimit-systemd.confirm");
    }
}
