//! Tells when a file has changed, also where an editor puts a new one in its place, or a link on the way to it leads elsewhere.

use std::{
    ffi::OsString,
    fs,
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

/// How often the file itself is looked at: the kernel tells of its folder alone, and of what leads there nothing.
const LOOK: Duration = Duration::from_secs(5);

/// Watches one file.
pub(crate) struct Watch {
    inotify: AsyncFd<OwnedFd>,
    path: PathBuf,
    name: OsString,
    looks: Interval,
    /// What was there when it was last said to have changed.
    known: Option<Stamp>,
    /// What was there at the last look.
    seen: Option<Stamp>,
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    /// Seconds and nanoseconds.
    written: (i64, i64),
    size: u64,
}

impl Stamp {
    /// Of the file that a path leads to. Nothing where there is none.
    fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        let written = (file.mtime(), file.mtime_nsec());
        Some(Self { device: file.dev(), inode: file.ino(), written, size: file.size() })
    }
}

impl Watch {
    /// Watches this file from now on.
    pub(crate) fn new(path: &Path) -> std::io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // The folder: what is put in the place of the file is another one.
        inotify::add_watch(&inotify, folder, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        // SAFETY: the descriptor is owned by what waits for it, and never closed or changed before.
        let inotify = unsafe { AsyncFd::register(inotify) }?;
        let mut looks = time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let known = Stamp::of(path);
        Ok(Self { inotify, path: path.to_owned(), name, looks, known, seen: known })
    }

    /// Waits until it has changed.
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
                // From before it is read, so that what comes meanwhile is another change.
                self.known = self.seen;
                return Ok(());
            }
        }
    }

    /// Whether it is another one than is known, and the same as at the look before: one that is just being written is not read. While it is away, the
    /// last one counts.
    fn look(&mut self) -> bool {
        let now = Stamp::of(&self.path);
        let is_steady = now == self.seen;
        self.seen = now;
        is_steady && now.is_some() && now != self.known
    }
}

/// Whether any of what the kernel has told of is about this name.
fn is_about(inotify: &OwnedFd, name: &OsString) -> std::io::Result<bool> {
    let mut buffer = [const { MaybeUninit::uninit() }; 4_096];
    let mut events = inotify::Reader::new(inotify.as_fd(), &mut buffer);
    let mut is_about = false;
    loop {
        match events.next() {
            Ok(event) => {
                is_about |= event.file_name().map(std::ffi::CStr::to_bytes) == Some(name.as_encoded_bytes());
                // More came than the kernel keeps.
                is_about |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            }
            Err(rustix::io::Errno::AGAIN) => return Ok(is_about),
            Err(error) => return Err(error.into()),
        }
    }
}
