//! The process that waits for the confirmation.

use std::{
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use ratelimit_base::notify::{journal::Level, system_log};
use ratelimit_dataplane::{
    Error, Instance,
    instance::{lock::is_locked, read_only::View},
};
use rustix::io::Errno;
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::OwnedWriteHalf,
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    time::{sleep_until, timeout},
};

use super::start::release_terminal;
use crate::controller::{
    change::{left, undo::Done},
    socket::{
        folder::CONFIRM,
        incoming::{IncomingRequest, IncomingRequests},
        request::{Reply, Request},
        server::{Lock, REQUEST_MOST, Server},
    },
};

/// How long a command may take to read its answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often an instance that cannot be opened is tried. A locked one does not count.
const TRIES: u32 = 5;

/// The time between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// The process that waits, with its socket.
pub struct Waiter {
    runtime: Runtime,
    server: Server,
}

/// The signals that the process catches while it waits.
pub struct Caught {
    /// Ignored, because the session may end meanwhile.
    _hangup: Signal,
    /// Undoes everything at once, like `terminate`.
    interrupt: Signal,
    terminate: Signal,
}

impl Waiter {
    /// Leaves the terminal and takes the socket. Each instance has one.
    ///
    /// # Errors
    ///
    /// Fails with [`SocketError::SecondConfirm`](crate::controller::socket::client::SocketError::SecondConfirm) if
    /// another attach waits.
    pub fn new(pins: &Path) -> anyhow::Result<Self> {
        match rustix::process::setsid() {
            // A process that leads a group cannot leave its session. Catching signals later is enough.
            Ok(_) | Err(Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let server = Server::take(pins, CONFIRM)?;
        drop(entered);
        Ok(Self { runtime, server })
    }

    /// Catches signals from now on. Before, when the attach is not complete, they end it as without a confirmation.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses.
    pub fn catch_signals(&self) -> io::Result<Caught> {
        let _entered = self.runtime.enter();
        Ok(Caught {
            _hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the confirmation until the moment `until`, and undoes the changes if none comes.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses to wait. The changes are undone then too.
    pub fn wait(
        self,
        caught: io::Result<Caught>,
        until: Instant,
        instance: Instance,
        is_new: bool,
        done: Done,
    ) -> anyhow::Result<Outcome> {
        let control = match instance.tables.control() {
            Ok(control) => control,
            Err(error) => {
                log_failures(&done.undo(instance, is_new));
                return Err(error.into());
            }
        };
        let changed = Changed { pins: instance.pins().to_owned(), seed: control.seed, is_new };
        // Other commands need the lock meanwhile.
        drop(instance);
        let _ = release_terminal();
        // The lock keeps the socket until everything is done.
        let (waited, lock) = self.wait_until(caught, until, &changed);
        match waited {
            Ok(Waited::Confirmed) => Ok(Outcome::Kept),
            Ok(Waited::Gone(asking)) => {
                // The connection is closed when nothing of the instance is held.
                drop(done);
                drop(lock);
                drop(asking);
                Ok(Outcome::Kept)
            }
            Ok(Waited::Unconfirmed) => Ok(Outcome::Undone { is_complete: changed.undo(done) }),
            Err(error) => {
                let _ = changed.undo(done);
                Err(error.into())
            }
        }
    }

    /// Waits for the confirmation until the moment `until`. After this, none is accepted.
    fn wait_until(self, caught: io::Result<Caught>, until: Instant, changed: &Changed) -> (io::Result<Waited>, Lock) {
        let Self { runtime, server: Server { listener, lock } } = self;
        let waited = runtime.block_on(async {
            let Caught { mut interrupt, mut terminate, .. } = caught?;
            let mut requests = IncomingRequests::new(listener, REQUEST_MOST);
            loop {
                tokio::select! {
                    () = sleep_until(until.into()) => return Ok(Waited::Unconfirmed),
                    _ = interrupt.recv() => return Ok(Waited::Unconfirmed),
                    _ = terminate.recv() => return Ok(Waited::Unconfirmed),
                    request = requests.next() => {
                        // A confirmation counts even if the command ends before the answer.
                        if let Some(waited) = serve(request, until, changed).await? {
                            return Ok(waited);
                        }
                    }
                }
            }
        });
        (waited, lock)
    }
}

/// What became of the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// They were confirmed, or the instance is removed.
    Kept,
    /// They are undone, perhaps not all of them.
    Undone {
        /// Whether all of them are.
        is_complete: bool,
    },
}

/// How the wait ended.
enum Waited {
    Confirmed,
    /// The instance is removed, so there is nothing to undo. The other end of this connection waits.
    Gone(OwnedWriteHalf),
    /// The time is over, or a signal came.
    Unconfirmed,
}

/// The instance that was changed.
struct Changed {
    pins: PathBuf,
    seed: [u64; 4],
    is_new: bool,
}

impl Changed {
    /// Returns whether the instance is removed. Another one at the same place does not count.
    fn is_gone(&self) -> bool {
        match View::open(&self.pins).and_then(|view| view.tables().control()) {
            Ok(control) => control.seed != self.seed,
            Err(error) => matches!(error, Error::NotAttached(_)),
        }
    }

    /// Undoes the changes. Interfaces come first, without the lock, because its holder may wait for a terminal that
    /// they block. Returns whether everything is undone.
    fn undo(&self, mut done: Done) -> bool {
        let (mut failures, mut reason, mut tries, mut is_told) = (Vec::new(), None, 0, false);
        while tries < TRIES {
            failures = done.undo_interfaces();
            if !is_told && is_locked(&self.pins) {
                is_told = true;
                let pins = self.pins.display();
                let text = format!(
                    "an attach was not confirmed: its interfaces are undone now, and the rest when another command at {pins} ends"
                );
                system_log::say(Level::Warning, &text);
            }
            match Instance::open(&self.pins).and_then(|instance| Ok((instance.tables.control()?.seed, instance))) {
                Ok((seed, instance)) if seed == self.seed => {
                    return log_failures(&done.undo(instance, self.is_new));
                }
                Ok(_) | Err(Error::NotAttached(_)) => return log_failures(&failures),
                // Only this process can undo the rest, so it waits as long as the other command needs.
                Err(Error::Locked { .. }) => continue,
                Err(error) => reason = Some(error),
            }
            tries += 1;
            thread::sleep(PAUSE);
        }
        failures.extend(reason.map(|error| anyhow::Error::from(error).context("everything except the interfaces")));
        log_failures(&failures)
    }
}

/// Writes to the system log what could not be undone, if anything. Returns whether there was nothing.
fn log_failures(failures: &[anyhow::Error]) -> bool {
    if !failures.is_empty() {
        let text =
            format!("an attach was not confirmed, and could not be undone completely: {}", left::in_words(failures));
        system_log::say(Level::Error, &text);
    }
    failures.is_empty()
}

/// Answers one request. Returns how the wait ended, if it did.
async fn serve(request: IncomingRequest, until: Instant, changed: &Changed) -> io::Result<Option<Waited>> {
    let IncomingRequest { line, mut command, .. } = request;
    let left = until.saturating_duration_since(Instant::now());
    let request = serde_json::from_str(&line).ok();
    let is_gone = request == Some(Request::Gone) && changed.is_gone();
    let answer = match request {
        Some(Request::Confirm) => Reply::Done(String::new()),
        Some(Request::Gone) if is_gone => Reply::Done(String::new()),
        Some(Request::Left | Request::Gone) => Reply::Left(left.as_secs()),
        _ => Reply::Failed(
            "unknown request: the command may be of another version than the attach that waits".to_owned(),
        ),
    };
    let answer = serde_json::to_string(&answer)? + "\n";
    let _ = timeout(PATIENCE, command.write_all(answer.as_bytes())).await;
    Ok(match request {
        Some(Request::Confirm) => Some(Waited::Confirmed),
        Some(Request::Gone) if is_gone => Some(Waited::Gone(command)),
        _ => None,
    })
}
