//! An attach that is taken back unless somebody confirms it in time. Who waits is a process of its own, started before anything is done: the terminal and the
//! SSH session that it was typed in may go at any moment, which is when it matters.

use std::{
    env,
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixStream, unix::OwnedWriteHalf},
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    time::{sleep_until, timeout},
};

use crate::controller::{
    change::undo::{self, Done},
    daemon::socket::{self, Answer, Lock, Place, REQUEST_MOST, Request, SocketError},
    notify::{journal::Level, system_log},
};
use crate::dataplane::{
    Error, Instance,
    instance::{open::is_locked, read_only::View},
};

/// Tells a process that it is the one to wait.
const WAITER: &str = "RATELIMIT_WAITS_FOR_CONFIRM";

/// Ends the output of one that has done all and waits. No text has it.
const WAITING: u8 = 0;

/// How long whoever asks may take to say what he wants: he does so at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it is tried to take everything back where the instance cannot be opened, and how long after one another.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Whether this process is the one to wait, started by [`start`].
#[must_use]
pub fn is_waiter() -> bool {
    env::var_os(WAITER).is_some()
}

/// Runs this very command in a process of its own, prints what it prints, and returns as soon as it has done all and waits.
/// Where it fails instead, which it says by itself, its exit status is returned.
///
/// # Errors
///
/// Where it cannot be started, or nobody reads what it prints.
pub fn start(out: &mut dyn io::Write) -> io::Result<Option<u8>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(env::args_os().skip(1)).env(WAITER, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.spawn()?;
    let mut text = Vec::new();
    if let Some(mut stdout) = process.stdout.take() {
        stdout.read_to_end(&mut text)?;
    }
    let is_waiting = text.pop_if(|last| *last == WAITING).is_some();
    out.write_all(&text)?;
    out.flush()?;
    if is_waiting {
        return Ok(None);
    }
    // A signal that ended it is an error too.
    Ok(Some(process.wait()?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)))
}

/// The process that waits, and its place.
pub struct Waiter {
    runtime: Runtime,
    place: Place,
    /// The end of the session, which is none of its business; and what has it take everything back at once.
    _hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Waiter {
    /// Leaves the terminal, and takes the place of those who wait: there is one for an instance.
    ///
    /// # Errors
    ///
    /// [`SocketError::SecondConfirm`] where one waits already.
    pub fn new(pins: &Path) -> anyhow::Result<Self> {
        match rustix::process::setsid() {
            // It leads a group, as one that nobody has started like that: the signals below are enough.
            Ok(_) | Err(Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let place = Place::take(pins, socket::CONFIRM)?;
        let [hangup, interrupt, terminate] =
            [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        let (hangup, interrupt, terminate) = (hangup?, interrupt?, terminate?);
        drop(entered);
        Ok(Self { runtime, place, _hangup: hangup, interrupt, terminate })
    }

    /// Waits until somebody confirms what was done, and takes it back if nobody does so until then.
    ///
    /// # Errors
    ///
    /// Where the system refuses to wait; it is taken back then too.
    pub(crate) fn wait(self, until: Instant, instance: Instance, is_new: bool, done: Done) -> anyhow::Result<()> {
        let control = match instance.tables.control() {
            Ok(control) => control,
            Err(error) => {
                say_left(&done.take_back(instance, is_new));
                return Err(error.into());
            }
        };
        let made = Made { pins: instance.pins().to_owned(), seed: control.seed, is_new };
        // Other commands go on meanwhile.
        drop(instance);
        let _ = release_terminal();
        // The place is taken until all is done.
        let (waited, lock) = self.wait_until(until, &made);
        match waited {
            Ok(Waited::Confirmed) => Ok(()),
            Ok(Waited::Gone(asking)) => {
                // Whoever asks hears that it has ended when nothing is held any more.
                drop(done);
                drop(lock);
                drop(asking);
                Ok(())
            }
            Ok(Waited::InVain) => {
                made.take_back(done);
                Ok(())
            }
            Err(error) => {
                made.take_back(done);
                Err(error.into())
            }
        }
    }

    /// Waits until somebody confirms it, or until then. Nobody can any more when this returns.
    fn wait_until(self, until: Instant, made: &Made) -> (io::Result<Waited>, Lock) {
        let Self { runtime, place: Place { listener, lock }, mut interrupt, mut terminate, .. } = self;
        let waited = runtime.block_on(async {
            loop {
                tokio::select! {
                    () = sleep_until(until.into()) => return Ok(Waited::InVain),
                    _ = interrupt.recv() => return Ok(Waited::InVain),
                    _ = terminate.recv() => return Ok(Waited::InVain),
                    accepted = listener.accept() => {
                        let (stream, _) = accepted?;
                        // Whoever goes away before the answer has confirmed it all the same.
                        if let Ok(Ok(Some(waited))) = timeout(PATIENCE, serve(stream, until, made)).await {
                            return Ok(waited);
                        }
                    }
                }
            }
        });
        (waited, lock)
    }
}

/// How the waiting has ended.
enum Waited {
    Confirmed,
    /// There is nothing to take back, as whoever asks is about to hear.
    Gone(OwnedWriteHalf),
    /// Until its time, or somebody had it end.
    InVain,
}

/// The instance that something was done to.
struct Made {
    pins: PathBuf,
    seed: [u64; 4],
    is_new: bool,
}

impl Made {
    /// Whether it is there no more. Another instance in its place is none of this one's.
    fn is_gone(&self) -> bool {
        match View::open(&self.pins).and_then(|view| view.tables().control()) {
            Ok(control) => control.seed != self.seed,
            Err(error) => matches!(error, Error::NotAttached),
        }
    }

    /// Takes back what was done. Interfaces are what matters, and go at once: whoever has the lock may have been stopped, or wait for a terminal that
    /// cannot be reached before they do.
    fn take_back(&self, mut done: Done) {
        let (mut failures, mut reason) = (Vec::new(), None);
        for _ in 0..TRIES {
            failures = done.take_back_interfaces();
            if is_locked(&self.pins) {
                let pins = self.pins.display();
                let text = format!(
                    "nobody confirmed an attach: all but its interfaces is taken back when another command at {pins} ends"
                );
                system_log::say(Level::Warning, &text);
            }
            match Instance::open(&self.pins).and_then(|instance| Ok((instance.tables.control()?.seed, instance))) {
                Ok((seed, instance)) if seed == self.seed => {
                    return say_left(&done.take_back(instance, self.is_new));
                }
                Ok(_) | Err(Error::NotAttached) => return say_left(&failures),
                Err(error) => reason = Some(error),
            }
            thread::sleep(PAUSE);
        }
        failures.extend(reason.map(|error| anyhow::Error::from(error).context("all but its interfaces")));
        say_left(&failures);
    }
}

/// Tells the system's log what could not be taken back, if there is any such thing.
fn say_left(failures: &[anyhow::Error]) {
    if !failures.is_empty() {
        let text =
            format!("nobody confirmed an attach, and not all of it could be taken back: {}", undo::in_words(failures));
        system_log::say(Level::Error, &text);
    }
}

/// Answers, and says whether the waiting has ended.
async fn serve(stream: UnixStream, until: Instant, made: &Made) -> io::Result<Option<Waited>> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read.take(REQUEST_MOST)).read_line(&mut line).await?;
    let left = until.saturating_duration_since(Instant::now());
    let request = serde_json::from_str(&line).ok();
    let is_gone = request == Some(Request::Gone) && made.is_gone();
    let answer = match request {
        Some(Request::Confirm) => Answer::Done(String::new()),
        Some(Request::Gone) if is_gone => Answer::Done(String::new()),
        Some(Request::Left | Request::Gone) => Answer::Left(left.as_secs()),
        _ => Answer::Failed("who waits does not know this request: is it of another version?".to_owned()),
    };
    let answer = serde_json::to_string(&answer)? + "\n";
    let _ = write.write_all(answer.as_bytes()).await;
    Ok(match request {
        Some(Request::Confirm) => Some(Waited::Confirmed),
        Some(Request::Gone) if is_gone => Some(Waited::Gone(write)),
        _ => None,
    })
}

/// Tells [`start`] that all is done, and holds nothing open that others wait for.
fn release_terminal() -> io::Result<()> {
    let said = io::stdout().lock().write_all(&[WAITING]).and_then(|()| io::stdout().flush());
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    said
}

/// Confirms what waits for it. Whether anything did.
///
/// # Errors
///
/// What the system says.
pub fn confirm(pins: &Path) -> Result<bool, SocketError> {
    match socket::ask(pins, socket::CONFIRM, Request::Confirm) {
        Ok(Answer::Done(_)) => Ok(true),
        // It was too late, perhaps by very little.
        Err(SocketError::NoDaemon(_) | SocketError::NoAnswer) => Ok(false),
        Ok(_) => Err(SocketError::NoAnswer),
        Err(error) => Err(error),
    }
}

/// Tells who waits that all of the instance may be gone, and returns when it holds nothing of it any more.
pub fn look(pins: &Path) {
    // Who does not wait, or does not answer, ends when its time has come.
    let _ = socket::ask(pins, socket::CONFIRM, Request::Gone);
}

/// Seconds until an attach that waits to be confirmed is taken back.
#[must_use]
pub fn left(pins: &Path) -> Option<u64> {
    match socket::ask(pins, socket::CONFIRM, Request::Left) {
        Ok(Answer::Left(seconds)) => Some(seconds),
        _ => None,
    }
}
