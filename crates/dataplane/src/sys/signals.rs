//! Signals that would end the process wait while it changes something in several steps: an interrupt from the keyboard,
//! a terminal that closes, a request to end. A long change asks whether one has come, and undoes its steps then. Any other
//! change is completed first. The signal acts when nothing holds it any more.
//!
//! A signal waits for one thread. In the daemon, other threads take it.

use std::{cell::Cell, io, mem::MaybeUninit, ptr};

use crate::{Error, error::Tried as _};

/// Signals that wait, with their names.
const WAITING: [(libc::c_int, &str); 3] =
    [(libc::SIGINT, "SIGINT"), (libc::SIGHUP, "SIGHUP"), (libc::SIGTERM, "SIGTERM")];

thread_local! {
    /// How often this thread holds the signals, and those that waited before.
    static HELD: Cell<Option<(usize, libc::sigset_t)>> = const { Cell::new(None) };
}

/// Signals that wait for this thread until the last one of these is dropped. One that another thread drops has no effect.
#[derive(Debug)]
pub struct Held {
    thread: libc::pthread_t,
}

impl Held {
    /// Holds the signals from now on.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses.
    pub fn hold() -> Result<Self, Error> {
        let held = match HELD.get() {
            Some((times, before)) => (times + 1, before),
            None => (1, set(libc::SIG_BLOCK, &waiting()?).tried("cannot hold signals back")?),
        };
        HELD.set(Some(held));
        Ok(Self { thread: this_thread() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some((times, before)) = HELD.get().filter(|_| self.thread == this_thread()) else { return };
        HELD.set((times > 1).then_some((times - 1, before)));
        if times == 1 {
            let _ = set(libc::SIG_SETMASK, &before);
        }
    }
}

/// Lets signals act that the parent process has held when it started this one.
///
/// # Errors
///
/// Fails if the system refuses.
pub fn let_through_from_parent() -> Result<(), Error> {
    set(libc::SIG_UNBLOCK, &waiting()?).tried("cannot let signals through").map(drop)
}

/// Does what can take any time, such as waiting for another process. Signals act meanwhile.
pub fn let_through<T>(work: impl FnOnce() -> T) -> T {
    let Some((_, before)) = HELD.get() else { return work() };
    let held = set(libc::SIG_SETMASK, &before);
    let done = work();
    if let Ok(held) = held {
        let _ = set(libc::SIG_SETMASK, &held);
    }
    done
}

/// Checks that no signal waits that will end this process.
///
/// # Errors
///
/// [`Error::Signal`] with its name.
pub fn check() -> Result<(), Error> {
    arrived().map_or(Ok(()), |name| Err(Error::Signal(name)))
}

/// Returns the name of a signal that waits and that will end this process when nothing [holds](Held) it any more.
#[must_use]
pub fn arrived() -> Option<&'static str> {
    // What blocked a signal before goes on doing so.
    let (_, before) = HELD.get()?;
    let mut pending = MaybeUninit::uninit();
    // SAFETY: the call writes the set, unless it fails.
    if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the set was written.
    let pending = unsafe { pending.assume_init() };
    // SAFETY: the set is one that the system has written.
    let is_in = |set: &libc::sigset_t, signal| unsafe { libc::sigismember(set, signal) } == 1;
    let ends = |signal| is_in(&pending, signal) && !is_in(&before, signal) && ends_process(signal);
    WAITING.into_iter().find(|(signal, _)| ends(*signal)).map(|(_, name)| name)
}

/// Returns whether a signal ends this process. `nohup` has one ignored, and a process that waits for one catches it.
fn ends_process(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call changes nothing, and writes the action, unless it fails.
    let is_known = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: the action was written, as there was no error.
    is_known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_DFL
}

fn waiting() -> Result<libc::sigset_t, Error> {
    let mut signals = MaybeUninit::uninit();
    // SAFETY: the first call makes an empty set, to which the others add.
    let is_made = unsafe {
        libc::sigemptyset(signals.as_mut_ptr()) == 0
            && WAITING.into_iter().all(|(signal, _)| libc::sigaddset(signals.as_mut_ptr(), signal) == 0)
    };
    let made = if is_made { Ok(()) } else { Err(io::Error::last_os_error()) };
    made.tried("cannot hold signals back")?;
    // SAFETY: the set was made.
    Ok(unsafe { signals.assume_init() })
}

/// Changes the signals that wait for this thread. Returns those that waited before.
fn set(how: libc::c_int, signals: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the call reads one set, and writes the other one where it succeeds.
    match unsafe { libc::pthread_sigmask(how, signals, before.as_mut_ptr()) } {
        // SAFETY: it was written, as there was no error.
        0 => Ok(unsafe { before.assume_init() }),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn this_thread() -> libc::pthread_t {
    // SAFETY: the call cannot fail.
    unsafe { libc::pthread_self() }
}
