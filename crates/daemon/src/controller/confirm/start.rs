//! Starts the process that waits, and lets it release the terminal.

use std::{
    env,
    fs::File,
    io::{self, Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use ratelimit_base::notify::journal::{self, Level};
use ratelimit_dataplane::{
    Error,
    sys::signals::{self, Held},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, retry_on_intr},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};

/// The environment variable that marks the process that waits.
const WAITER: &str = "RATELIMIT_WAITS_FOR_CONFIRM";

/// The byte that ends the output of a process that has done everything and waits. Text never contains it.
const WAITING: u8 = 0;

/// The exit status of a process that has undone everything.
pub const UNDONE: u8 = 3;

/// The time between two looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(20);

/// How long a signal waits for the undo. Longer, and another command has locked the instance.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns whether this process is the one that waits, started by [`start`].
#[must_use]
pub fn is_waiter() -> bool {
    env::var_os(WAITER).is_some()
}

/// Runs this command in a process of its own, and prints the output of that process. Returns when the process has done
/// everything and waits. If the process fails instead, returns its exit status. It has printed the error itself.
///
/// # Errors
///
/// Fails if the process cannot be started, or if its output cannot be printed.
pub fn start(out: &mut dyn io::Write) -> io::Result<Option<u8>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(env::args_os().skip(1)).env(WAITER, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    // The process gets a session of its own, so only this one gets Ctrl-C, and passes it on.
    let _held = Held::hold().map_err(io::Error::other)?;
    let mut attach = Attach { process: command.spawn()?, passed: None };
    let mut text = attach.text()?;
    let is_waiting = text.pop_if(|last| *last == WAITING).is_some();
    attach.pass_on()?;
    if let Some(passed) = attach.passed {
        let status = attach.end(passed.until)?;
        if let Some(text) = passed.end(status, is_waiting).filter(|_| journal::is_ready()) {
            journal::say(Level::Error, &text);
        }
        return Ok(Some(2));
    }
    out.write_all(&text)?;
    out.flush()?;
    if is_waiting {
        return Ok(None);
    }
    // A process that a signal ended has no status, which counts as an error.
    Ok(Some(attach.process.wait()?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)))
}

/// The process that attaches.
struct Attach {
    process: Child,
    passed: Option<Passed>,
}

/// A signal that was passed on.
#[derive(Clone, Copy)]
struct Passed {
    name: &'static str,
    signals: &'static [Signal],
    /// When this process waits no longer.
    until: Instant,
}

impl Attach {
    /// Reads the output of the process until it ends or waits, or until a signal has waited for long enough.
    fn text(&mut self) -> io::Result<Vec<u8>> {
        let (mut text, mut part) = (Vec::new(), [0; 4096]);
        let Some(mut stdout) = self.process.stdout.take() else { return Ok(text) };
        while self.passed.is_none_or(|passed| Instant::now() < passed.until) {
            self.pass_on()?;
            let look = Timespec::try_from(LOOK).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&look)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match stdout.read(&mut part)? {
                    0 => break,
                    read => text.extend_from_slice(&part[..read]),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(text)
    }

    /// Passes on the first signal that has come.
    fn pass_on(&mut self) -> io::Result<()> {
        if let (None, Some(name)) = (self.passed, signals::arrived()) {
            let signals: &[Signal] = match name {
                "SIGINT" => &[Signal::INT],
                // A process that waits ignores a hangup.
                "SIGHUP" => &[Signal::HUP, Signal::TERM],
                _ => &[Signal::TERM],
            };
            self.passed = Some(Passed { name, signals, until: Instant::now() + PATIENCE });
            let process = Pid::from_child(&self.process);
            signals.iter().try_for_each(|signal| kill_process(process, *signal))?;
        }
        Ok(())
    }

    /// Waits for the end of the process, until this moment at most.
    fn end(&mut self, until: Instant) -> io::Result<Option<ExitStatus>> {
        let process = pidfd_open(Pid::from_child(&self.process), PidfdFlags::empty())?;
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        retry_on_intr(|| poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)))?;
        self.process.try_wait()
    }
}

impl Passed {
    /// Returns what the operator reads. None if the process has told it, or has begun nothing.
    fn end(&self, status: Option<ExitStatus>, is_waiting: bool) -> Option<String> {
        let ended = Error::Signal(self.name);
        let is_passed = |raw| self.signals.iter().any(|signal| signal.as_raw() == raw);
        match status {
            Some(status) if status.code() == Some(UNDONE.into()) => {
                Some(format!("{ended}, and everything is as it was before"))
            }
            Some(status) if !is_waiting && status.signal().is_none_or(is_passed) => None,
            _ => Some(format!("{ended}; look at `ratelimit status`")),
        }
    }
}

/// Reports to [`start`] that everything is done, and closes the standard streams.
pub(super) fn release_terminal() -> io::Result<()> {
    let reported = io::stdout().lock().write_all(&[WAITING]).and_then(|()| io::stdout().flush());
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    reported
}
