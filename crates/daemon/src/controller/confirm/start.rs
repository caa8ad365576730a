//! Starts the process that waits, and lets it release the terminal.

use std::{
    env,
    fs::File,
    io::{self, Read as _, Write as _},
    process::{Command, Stdio},
};

use ratelimit_base::notify::journal::{Level, say};
use ratelimit_dataplane::{
    Error,
    sys::signals::{self, Held},
};
use rustix::{
    process::{Pid, Signal, kill_process},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};

/// The environment variable that marks the process that waits.
const WAITER: &str = "RATELIMIT_WAITS_FOR_CONFIRM";

/// The byte that ends the output of a process that has done everything and waits. Text never contains it.
const WAITING: u8 = 0;

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
    // The process gets a session of its own, so only this one gets Ctrl-C.
    let _held = Held::hold().map_err(io::Error::other)?;
    let mut process = command.spawn()?;
    let mut text = Vec::new();
    if let Some(mut stdout) = process.stdout.take() {
        stdout.read_to_end(&mut text)?;
    }
    let is_waiting = text.pop_if(|last| *last == WAITING).is_some();
    if is_waiting && let Some(signal) = signals::arrived() {
        // It undoes everything.
        kill_process(Pid::from_child(&process), Signal::TERM)?;
        process.wait()?;
        say(Level::Error, &Error::Signal(signal).to_string());
        return Ok(Some(2));
    }
    out.write_all(&text)?;
    out.flush()?;
    if is_waiting {
        return Ok(None);
    }
    // A process that a signal ended has no status, which counts as an error.
    Ok(Some(process.wait()?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)))
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
