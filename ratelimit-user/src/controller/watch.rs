//! Tells when a file has changed, also where an editor puts a new one in its place.

use std::{
    ffi::OsString,
    mem::MaybeUninit,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

/// Watches one file.
pub(super) struct Watch {
    inotify: AsyncFd<OwnedFd>,
    name: OsString,
}

impl Watch {
    /// Watches this file from now on.
    pub(super) fn new(path: &Path) -> std::io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // The folder: what is put in the place of the file is another one.
        inotify::add_watch(&inotify, folder, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        // SAFETY: the descriptor is owned by what waits for it, and never closed or changed before.
        let inotify = unsafe { AsyncFd::register(inotify) }?;
        Ok(Self { inotify, name })
    }

    /// Waits until it has changed.
    pub(super) async fn changed(&mut self) -> std::io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            let mut buffer = [const { MaybeUninit::uninit() }; 4_096];
            let mut events = inotify::Reader::new(self.inotify.get_ref().as_fd(), &mut buffer);
            let mut has_changed = false;
            loop {
                match events.next() {
                    Ok(event) => {
                        let name = event.file_name().map(std::ffi::CStr::to_bytes);
                        has_changed |= name == Some(self.name.as_encoded_bytes());
                        // More came than the kernel keeps.
                        has_changed |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                    }
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            ready.clear_ready();
            if has_changed {
                return Ok(());
            }
        }
    }
}
