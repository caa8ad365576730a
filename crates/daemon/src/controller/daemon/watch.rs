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
pub(super) struct Watch {
    inotify: AsyncFd<OwnedFd>,
    /// The folder that the kernel reports about. None while there is none.
    watched: Option<Watched>,
    folder: PathBuf,
    path: PathBuf,
    name: OsString,
    looks: Interval,
    /// The state at the last reported change.
    known: Option<Stamp>,
    /// The state at the last look.
    seen: Option<Stamp>,
    /// Whether the end of the file counts as a change.
    reports_absence: bool,
}

/// A folder that the kernel reports about. Another one can take its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watched {
    number: i32,
    device: u64,
    inode: u64,
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
    /// Watches this file, and also reports its end, and a change since it had this state. Without a state, there was no
    /// file. Its folder may be missing too: only the comparison finds the file then.
    pub(super) fn since(path: &Path, metadata: Option<&Metadata>) -> std::io::Result<Self> {
        let mut watch = Self::unwatched(path)?;
        match watch.follow() {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(Self { known: metadata.map(Stamp::from), reports_absence: true, ..watch }),
        }
    }

    /// Watches this file from now on.
    pub(super) fn new(path: &Path) -> std::io::Result<Self> {
        let mut watch = Self::unwatched(path)?;
        watch.follow()?;
        Ok(watch)
    }

    fn unwatched(path: &Path) -> std::io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        // SAFETY: `AsyncFd` owns the descriptor, which is never closed or replaced before it.
        let inotify = unsafe { AsyncFd::register(inotify) }?;
        let mut looks = time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let known = Stamp::of(path);
        let (folder, path) = (folder.to_owned(), path.to_owned());
        Ok(Self { inotify, watched: None, folder, path, name, looks, known, seen: known, reports_absence: false })
    }

    /// Waits until the file changes.
    pub(super) async fn changed(&mut self) -> std::io::Result<()> {
        loop {
            let has_changed = tokio::select! {
                ready = self.inotify.readable() => {
                    let mut ready = ready?;
                    let is_told = read(self.inotify.get_ref(), &self.name, &mut self.watched)?;
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

    /// Asks the kernel for reports about the files in the folder, unless it makes them already. The folder may be another
    /// one by now: moved, made again, or behind a changed link.
    fn follow(&mut self) -> std::io::Result<()> {
        let now = fs::metadata(&self.folder)?;
        let is_same = |watched: &Watched| (watched.device, watched.inode) == (now.dev(), now.ino());
        if self.watched.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        if let Some(old) = self.watched.take() {
            // The kernel ends the reports about a folder that was removed.
            let _ = inotify::remove_watch(self.inotify.get_ref(), old.number);
        }
        // A replaced file is another inode.
        let of_files = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
        let number = inotify::add_watch(self.inotify.get_ref(), &self.folder, of_files)?;
        self.watched = Some(Watched { number, device: now.dev(), inode: now.ino() });
        Ok(())
    }

    /// Returns whether the file differs from the known state and did not change since the previous look.
    fn look(&mut self) -> bool {
        // A failure is tried again at the next look.
        let _ = self.follow();
        let now = Stamp::of(&self.path);
        let is_steady = now == self.seen;
        self.seen = now;
        is_steady && now != self.known && (now.is_some() || self.reports_absence)
    }
}

/// Reads all reports. Returns whether any concerns this name. Forgets the folder if its reports have ended: another one
/// can get its number.
fn read(inotify: &OwnedFd, name: &OsString, watched: &mut Option<Watched>) -> std::io::Result<bool> {
    let mut buffer = [const { MaybeUninit::uninit() }; 4_096];
    let mut events = inotify::Reader::new(inotify.as_fd(), &mut buffer);
    let mut is_about = false;
    loop {
        match events.next() {
            Ok(event) => {
                is_about |= event.file_name().map(std::ffi::CStr::to_bytes) == Some(name.as_encoded_bytes());
                // The kernel has dropped reports.
                let has_lost = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                is_about |= has_lost;
                let has_ended = event.events().contains(ReadFlags::IGNORED);
                watched.take_if(|watched| has_lost || has_ended && watched.number == event.wd());
            }
            Err(rustix::io::Errno::AGAIN) => return Ok(is_about),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tokio::runtime::Builder;

    use super::*;

    /// After the next look, a new folder in the place of the watched one is watched, and the old one is not.
    #[test]
    fn a_folder_in_the_place_of_another_is_watched() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let outer = std::env::temp_dir().join(format!("ratelimit-watch-{}", std::process::id()));
        let (folder, moved) = (outer.join("folder"), outer.join("moved"));
        fs::create_dir_all(&folder).unwrap();
        let mut watch = Watch::new(&folder.join("file")).unwrap();
        let is_told = |watch: &mut Watch, folder: &Path| {
            fs::write(folder.join("file"), "").unwrap();
            read(watch.inotify.get_ref(), &watch.name, &mut watch.watched).unwrap()
        };
        assert!(is_told(&mut watch, &folder));
        fs::remove_dir_all(&folder).unwrap();
        read(watch.inotify.get_ref(), &watch.name, &mut watch.watched).unwrap();
        watch.look();
        fs::create_dir(&folder).unwrap();
        watch.look();
        assert!(is_told(&mut watch, &folder));
        fs::rename(&folder, &moved).unwrap();
        fs::create_dir(&folder).unwrap();
        watch.look();
        assert!(is_told(&mut watch, &folder) && !is_told(&mut watch, &moved));
        // A link to another folder.
        fs::remove_dir_all(&folder).unwrap();
        symlink(&moved, &folder).unwrap();
        watch.look();
        assert!(is_told(&mut watch, &moved));
        fs::remove_dir_all(outer).unwrap();
    }
}
