//! Marks an unfinished change of rules. Signals that would end the process wait until it is done. If the process is
//! killed all the same, the mark stays among the pins, and the next command that opens the instance makes the written
//! rules act.

use std::{
    fs, io,
    mem::MaybeUninit,
    path::{Path, PathBuf},
    ptr,
};

use crate::dataplane::{
    Error,
    error::Tried as _,
    pins::layout::{self, CHANGING},
    tables::open::Tables,
};

/// Signals that wait: an interrupt from the keyboard, a terminal that closes, a request to end.
const WAITING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGHUP, libc::SIGTERM];

/// The mark of one change. If it is dropped without an [end](Self::end), the mark stays.
pub(crate) struct BatchMarker {
    /// None if the maps are not pinned.
    mark: Option<PathBuf>,
    /// Released last.
    _held: Held,
}

impl BatchMarker {
    /// Sets the mark before the first rule is written.
    pub(crate) fn begin(pins: Option<&Path>) -> Result<Self, Error> {
        let (mark, held) = (pins.map(|pins| pins.join(CHANGING)), Held::hold()?);
        mark.as_deref().map_or(Ok(()), layout::create_folder)?;
        Ok(Self { mark, _held: held })
    }

    /// Removes the mark when all that was written acts. If it stays, the next command makes it act once more, which is
    /// harmless.
    pub(crate) fn end(self) {
        let _ = self.mark.as_ref().map(fs::remove_dir);
    }
}

/// Makes the rules of an unfinished change act on every source.
pub(crate) fn recover(pins: &Path, tables: &mut Tables) -> Result<(), Error> {
    tables.renew()?;
    remove(pins)
}

/// Removes the mark.
pub(crate) fn remove(pins: &Path) -> Result<(), Error> {
    layout::remove_folder(&pins.join(CHANGING))
}

/// Signals that wait for this thread, and arrive when this is dropped. In the daemon, other threads take them.
struct Held {
    /// The signals that waited before.
    before: libc::sigset_t,
}

impl Held {
    fn hold() -> Result<Self, Error> {
        let (mut waiting, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the first call makes a set, to which the second adds; the third reads it, and writes the other one
        // where it succeeds.
        let error = unsafe {
            libc::sigemptyset(waiting.as_mut_ptr());
            for signal in WAITING {
                libc::sigaddset(waiting.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, waiting.as_ptr(), before.as_mut_ptr())
        };
        if error != 0 {
            Err(io::Error::from_raw_os_error(error)).tried("cannot hold signals back")?;
        }
        // SAFETY: it was written, as there was no error.
        Ok(Self { before: unsafe { before.assume_init() } })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the set is one that the system has written.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}
