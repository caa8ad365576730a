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
    has_folder: bool,
    folder: PathBuf,
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
            add_watch(&inotify, folder)?;
        }
        let name = path.file_name().unwrap_or_default().to_owned();
        // SAFETY: `AsyncFd` owns the descriptor, which is never closed or replaced before it.
        let inotify = unsafe { AsyncFd::register(inotify) }?;
        let mut looks = time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let known = Stamp::of(path);
        let (folder, path) = (folder.to_owned(), path.to_owned());
        Ok(Self { inotify, has_folder, folder, path, name, looks, known, seen: known })
    }

    /// Waits until the file changes.
    pub(crate) async fn changed(&mut self) -> std::io::Result<()> {
        loop {
            let has_changed = tokio::select! {
                ready = self.inotify.readable() => {
                    let mut ready = ready?;
                    let reports = Reports::read(self.inotify.get_ref(), &self.name)?;
                    ready.clear_ready();
                    self.note(&reports)
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

    /// Takes note of reports. Returns whether one of them concerns the file.
    fn note(&mut self, reports: &Reports) -> bool {
        self.has_folder &= !reports.lost_folder;
        if reports.about_file {
            self.seen = Stamp::of(&self.path);
        }
        reports.about_file
    }

    /// Returns whether the file differs from the known state and did not change since the previous look. A missing file
    /// does not count.
    fn look(&mut self) -> bool {
        // A folder that was missing may be there again. A failure is tried again at the next look.
        self.has_folder = self.has_folder || add_watch(self.inotify.get_ref(), &self.folder).is_ok();
        let now = Stamp::of(&self.path);
        let is_steady = now == self.seen;
        self.seen = now;
        is_steady && now.is_some() && now != self.known
    }
}

/// Asks the kernel for reports about the files in a folder. A replaced file is another inode.
fn add_watch(inotify: &OwnedFd, folder: &Path) -> std::io::Result<()> {
    let of_files = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
    inotify::add_watch(inotify, folder, of_files | WatchFlags::MOVE_SELF)?;
    Ok(())
}

/// What the kernel has reported.
#[derive(Default)]
struct Reports {
    about_file: bool,
    /// The folder was moved or removed. Another one can take its place.
    lost_folder: bool,
}

impl Reports {
    /// Reads all reports, for a file of this name.
    fn read(inotify: &OwnedFd, name: &OsString) -> std::io::Result<Self> {
        let mut buffer = [const { MaybeUninit::uninit() }; 4_096];
        let mut events = inotify::Reader::new(inotify.as_fd(), &mut buffer);
        let mut found = Self::default();
        loop {
            match events.next() {
                Ok(event) => {
                    let is_named = event.file_name().map(std::ffi::CStr::to_bytes) == Some(name.as_encoded_bytes());
                    // The kernel may have dropped reports.
                    found.about_file |= is_named || event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                    found.lost_folder |= event.events().intersects(ReadFlags::IGNORED | ReadFlags::MOVE_SELF);
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(found),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_folder_that_is_there_again_is_watched_again() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let folder = std::env::temp_dir().join(format!("ratelimit-watch-{}", std::process::id()));
        let moved = folder.with_extension("moved");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("file");
        let mut watch = Watch::new(&file).unwrap();
        let told = |watch: &mut Watch| {
            let reports = Reports::read(watch.inotify.get_ref(), &watch.name).unwrap();
            watch.note(&reports)
        };
        let lose: [fn(&Path, &Path); 2] =
            [|folder, _| fs::remove_dir_all(folder).unwrap(), |folder, moved| fs::rename(folder, moved).unwrap()];
        for lose in lose {
            assert!(watch.has_folder);
            lose(&folder, &moved);
            assert!(!told(&mut watch) && !watch.has_folder);
            watch.look();
            assert!(!watch.has_folder);
            fs::create_dir(&folder).unwrap();
            watch.look();
            fs::write(&file, "").unwrap();
            assert!(watch.has_folder && told(&mut watch));
        }
        fs::remove_dir_all(folder).unwrap();
        fs::remove_dir_all(moved).unwrap();
    }
}
