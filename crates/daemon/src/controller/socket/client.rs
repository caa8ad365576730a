//! Requests of commands.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use ratelimit_base::{text::prefix::Prefix, unix_group::name_of};
use ratelimit_dataplane::{self as dataplane, instance::lock, sys::lock_holder::Holder};
use ratelimit_protocol::stops::{Events, Stop};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    folder::{DAEMON, METRICS, folder},
    request::{FileState, Reply, Request},
};

/// How long a command waits for information that it only shows.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a command waits for the engine of a fleet: longer than the daemon does.
const OF_ENGINE: Duration = Duration::from_secs(8);

/// Why there is no socket, or no answer.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// No process listens.
    #[error("no daemon runs for {}: start one with `ratelimit run -c FILE`", .0.display())]
    NoDaemon(PathBuf),
    /// A daemon already listens.
    #[error("a daemon already runs for {}, as {holder}: `ratelimit reload` makes it read its file again", .pins.display())]
    SecondDaemon {
        /// The folder of the pins.
        pins: PathBuf,
        /// That daemon.
        holder: Holder,
    },
    /// Another attach already waits.
    #[error(
        "another attach waits for its confirmation, in {0}: run `ratelimit confirm` first, or wait until that attach is undone"
    )]
    SecondConfirm(Holder),
    /// Another user could take the place of the process that answers.
    #[error(transparent)]
    Unsafe(#[from] dataplane::Error),
    /// The caller is neither root nor in the group of the socket.
    #[error("this daemon answers only to {0}: try with sudo")]
    Refused(String),
    /// The process ended before it answered, or its answer cannot be understood.
    #[error("the daemon gave no answer: see its output for the reason")]
    NoAnswer,
    /// The process waits for something else, or is stopped.
    #[error("the daemon gave no answer within {} seconds: `ratelimit fleet rules log` shows whether a change was made", .0.as_secs())]
    Late(Duration),
    /// The folder cannot be created.
    #[error("{}: {cause}: the daemon needs this folder for its socket, so make /run writable for it, for example with a tmpfs", .path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
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

/// Returns whether a daemon listens for the instance with these pins.
#[must_use]
pub fn is_listening(pins: &Path) -> bool {
    let refused = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    UnixStream::connect(folder(pins, DAEMON).join(DAEMON))
        .map_or_else(|error| !refused.contains(&error.kind()), |_| true)
}

/// Sends a request to this socket of the instance with these pins, and returns the answer.
///
/// # Errors
///
/// Fails with [`SocketError`] if no process listens, or if it gives no answer.
pub fn ask(pins: &Path, name: &str, request: Request) -> Result<Reply, SocketError> {
    let mut stream = connect(pins, name)?;
    // A question must not wait for a process that is stopped.
    let patience = match request {
        Request::Left
        | Request::Gone
        | Request::State
        | Request::Fleet
        | Request::Stops(_)
        | Request::StopEvents(_) => Some(PATIENCE),
        Request::Rules(..) => Some(OF_ENGINE),
        Request::Reload | Request::ReloadBy(_) | Request::Confirm => None,
    };
    let _ = stream.set_read_timeout(patience);
    let _ = stream.set_write_timeout(patience);
    let mut answer = String::new();
    let asked = serde_json::to_string(&request).map_err(io::Error::from).and_then(|line| writeln!(stream, "{line}"));
    if asked.is_ok() && patience.is_none() && !is_answered(&stream, PATIENCE) {
        lock::say_holder(pins);
    }
    let mut reader = BufReader::new(stream);
    let read = asked.and_then(|()| reader.read_line(&mut answer));
    if let (Err(error), Request::Rules(..)) = (&read, &request)
        && error.kind() == io::ErrorKind::WouldBlock
    {
        return Err(SocketError::Late(OF_ENGINE));
    }
    // A process that ends keeps the connection open until it holds nothing of the instance.
    let _ = io::copy(&mut reader, &mut io::sink());
    read.ok().and_then(|_| serde_json::from_str(&answer).ok()).ok_or(SocketError::NoAnswer)
}

/// Waits for the begin of an answer. Returns whether it has come, or cannot come.
fn is_answered(stream: &UnixStream, patience: Duration) -> bool {
    let mut answered = [PollFd::new(stream, PollFlags::IN)];
    let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: 0 };
    poll(&mut answered, Some(&patience)) != Ok(0)
}

/// Returns the file that the daemon keeps in force. Returns None without a daemon, and while it does not answer.
#[must_use]
pub fn file_state(pins: &Path) -> Option<FileState> {
    match ask(pins, DAEMON, Request::State) {
        Ok(Reply::State(state)) => Some(state),
        _ => None,
    }
}

/// Returns the limits of applications that are in force for an address, or would be. Returns none without a daemon, and
/// while it does not answer.
#[must_use]
pub fn stops(pins: &Path, address: &Prefix) -> Vec<Stop> {
    match ask(pins, DAEMON, Request::Stops(address.to_string())) {
        Ok(Reply::Stops(stops)) => stops,
        _ => Vec::new(),
    }
}

/// Returns the oldest events of these limits after this number.
///
/// # Errors
///
/// Fails with [`SocketError`] without a daemon, and while it does not answer.
pub fn stop_events(pins: &Path, number: u64) -> Result<Events, SocketError> {
    match ask(pins, DAEMON, Request::StopEvents(number))? {
        Reply::StopEvents(events) => Ok(events),
        _ => Err(SocketError::NoAnswer),
    }
}

/// Connects to the daemon's socket for metrics.
pub fn connect_to_metrics(pins: &Path) -> Result<UnixStream, SocketError> {
    connect(pins, METRICS)
}

fn connect(pins: &Path, name: &str) -> Result<UnixStream, SocketError> {
    let folder = folder(pins, name);
    let path = folder.join(name);
    UnixStream::connect(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => SocketError::NoDaemon(pins.to_owned()),
        io::ErrorKind::PermissionDenied => SocketError::Refused(who_may_ask(&folder)),
        _ => SocketError::System { path, cause: error },
    })
}

/// Returns the users that can use the sockets in this folder, in words.
fn who_may_ask(folder: &Path) -> String {
    let group = fs::metadata(folder).map(|folder| folder.gid()).unwrap_or(0);
    if group == 0 {
        return "root".to_owned();
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    format!("root and the group {}", name_of(group, &groups).unwrap_or(&group.to_string()))
}
