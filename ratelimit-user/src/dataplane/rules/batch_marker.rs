//! A change of many rules that is under way. Signals that would end the process wait until it is done. Should it be cut short all the same, a mark
//! among the pins stays, and whoever opens the instance next makes what was written act.

use std::{fs, io, mem::MaybeUninit, path::Path, path::PathBuf, ptr};

use crate::dataplane::{
    Error,
    error::{Tried as _, at},
    instance::open::remove_if_there,
    tables::open::Tables,
};

/// The mark: an empty folder.
const FOLDER: &str = "changing";

/// Signals that wait: an interrupt from the keyboard, a terminal that closes, a request to end.
const WAITING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGHUP, libc::SIGTERM];

/// One change. Dropped without an [end](Self::end), it leaves the mark.
pub(crate) struct Underway {
    mark: PathBuf,
    /// Released last.
    _held: Held,
}

impl Underway {
    /// Before the first rule is written.
    pub(crate) fn begin(pins: &Path) -> Result<Self, Error> {
        let (mark, held) = (pins.join(FOLDER), Held::hold()?);
        match fs::create_dir(&mark) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(&mark)(error)),
            _ => Ok(Self { mark, _held: held }),
        }
    }

    /// When all that was written acts. That the mark stays is no failure: it makes the same act once more.
    pub(crate) fn end(self) {
        let _ = fs::remove_dir(&self.mark);
    }
}

/// Makes what a change that was cut short has written act on every source.
pub(crate) fn recover(pins: &Path, tables: &mut Tables) -> Result<(), Error> {
    if pins.join(FOLDER).exists() {
        tables.renew()?;
        remove(pins)?;
    }
    Ok(())
}

/// Removes the mark.
pub(crate) fn remove(pins: &Path) -> Result<(), Error> {
    remove_if_there(&pins.join(FOLDER), |path| fs::remove_dir(path))
}

/// Signals that wait for this thread; with its drop they arrive. Where other threads take them, as those of the daemon do, they never ended the process.
struct Held {
    /// What this thread held back before.
    before: libc::sigset_t,
}

impl Held {
    fn hold() -> Result<Self, Error> {
        let (mut waiting, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the first call makes a set, to which the second adds; the third reads it, and writes the other one where it succeeds.
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
