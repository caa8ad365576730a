//! Waits until a file changes, also if an editor replaces it, or if a symbolic link in its path changes.
//!
//! inotify watches the folder of the file. Every five seconds, device, inode, time and size of the file are compared,
//! because a link can change elsewhere, and the owner of a file that could not be read. A change that only this
//! comparison finds counts when two looks agree, so that a file that is being written is not read.

use std::{
    ffi::OsString,
    fs::{self, Metadata},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::{
    io::unix::AsyncFd,
    time::{self, Interval, MissedTickBehavior},
};

/// The time between two looks at the file. inotify reports changes of the folder only, not of links to it.
const LOOK: Duration = Duration::from_secs(5);

/// Watches one file.
pub(crate) struct Watch {
    inotify: AsyncFd<OwnedFd>,
    /// Whether the kernel reports changes of the folder. It cannot while there is none.
    pub(crate) has_folder: bool,
    path: PathBuf,
    name: OsString,
    looks: Interval,
    /// The state at the last reported change.
    known: Option<Stamp>,
    /// The state at the last look.
    seen: Option<Stamp>,
}

/// The state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    /// Seconds and nanoseconds of the last change, also of its owner or mode.
    changed: (i64, i64),
    size: u64,
}

impl Stamp {
    /// Returns the state of the file at a path. Returns None if there is no file.
    fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|file| Self::from(&file))
    }
}

impl From<&Metadata> for Stamp {
    fn from(file: &Metadata) -> Self {
        let changed = (file.ctime(), file.ctime_nsec());
        Self { device: file.dev(), inode: file.ino(), changed, size: file.size() }
    }
}

impl Watch {
    /// Watches this file, and also reports a change since it had this state. Without a state, there was no file. Its
    /// folder may be missing too: only the comparison finds the file then.
    pub(crate) fn since(path: &Path, metadata: Option<&Metadata>) -> std::io::Result<Self> {
        let watch = match Self::over(path, true) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::over(path, false),
            watch => watch,
        };
        Ok(Self { known: metadata.map(Stamp::from), ..watch? })
    }

    /// Watches this file from now on.
    pub(crate) fn new(path: &Path) -> std::io::Result<Self> {
        Self::over(path, true)
    }

    fn over(path: &Path, has_folder: bool) -> std::io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        if has_folder {
            // A replaced file is another inode.
            inotify::add_watch(&inotify, folder, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO)?;
        }
        let name = path.file_name().unwrap_or_default().to_owned();
        // SAFETY: `AsyncFd` owns the descriptor, which is never closed or replaced before it.
        let inotify = unsafe { AsyncFd::register(inotify) }?;
        let mut looks = time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let known = Stamp::of(path);
        Ok(Self { inotify, has_folder, path: path.to_owned(), name, looks, known, seen: known })
    }

    /// Waits until the file changes.
    pub(crate) async fn changed(&mut self) -> std::io::Result<()> {
        loop {
            let has_changed = tokio::select! {
                ready = self.inotify.readable() => {
                    let mut ready = ready?;
                    let is_told = is_about(self.inotify.get_ref(), &self.name)?;
                    ready.clear_ready();
                    if is_told {
                        self.seen = Stamp::of(&self.path);
                    }
                    is_told
                }
                _ = self.looks.tick() => self.look(),
            };
            if has_changed {
                // This state is from before the file is read. So a change while it is read counts as another one.
                self.known = self.seen;
                return Ok(());
            }
        }
    }

    /// Returns whether the file differs from the known state and did not change since the previous look. A missing file
    /// does not count.
    fn look(&mut self) -> bool {
        let now = Stamp::of(&self.path);
        let is_steady = now == self.seen;
        self.seen = now;
        is_steady && now.is_some() && now != self.known
    }
}

/// Returns whether any report of the kernel concerns this name.
fn is_about(inotify: &OwnedFd, name: &OsString) -> std::io::Result<bool> {
    let mut buffer = [const { MaybeUninit::uninit() }; 4_096];
    let mut events = inotify::Reader::new(inotify.as_fd(), &mut buffer);
    let mut is_about = false;
    loop {
        match events.next() {
            Ok(event) => {
                is_about |= event.file_name().map(std::ffi::CStr::to_bytes) == Some(name.as_encoded_bytes());
                // The kernel has dropped reports.
                is_about |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            }
            Err(rustix::io::Errno::AGAIN) => return Ok(is_about),
            Err(error) => return Err(error.into()),
        }
    }
}
