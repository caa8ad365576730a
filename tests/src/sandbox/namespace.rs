//! Network namespaces without a name, which the kernel removes with their last user, however that one ends.

use std::{
    env,
    fs::File,
    io,
    os::fd::{AsFd as _, OwnedFd},
    panic, thread,
};

use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

/// A network namespace, and mounts that are private to the sandbox.
#[derive(Debug)]
pub struct Namespace {
    mounts: OwnedFd,
    network: OwnedFd,
}

impl Namespace {
    /// Two network namespaces that see the same mounts: this process's, with an empty bpffs and an empty /run of their own.
    ///
    /// # Panics
    ///
    /// Without the privilege to make them.
    pub(crate) fn pair() -> (Self, Self) {
        let make = || {
            unshare(UnshareFlags::NEWNS | UnshareFlags::NEWNET)?;
            mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
            mount("bpf", "/sys/fs/bpf", "bpf", MountFlags::empty(), None)?;
            mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), None)?;
            let first = Self::current()?;
            unshare(UnshareFlags::NEWNET)?;
            Ok((first, Self::current()?))
        };
        let pair: io::Result<_> = thread::scope(|scope| join(scope.spawn(make)));
        pair.unwrap_or_else(|error| panic!("cannot make namespaces: {error}; run `cargo xtask test` as root"))
    }

    /// Runs `work` on a thread inside, and returns what it returns.
    ///
    /// # Panics
    ///
    /// With what `work` panics with.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            join(scope.spawn(|| {
                self.enter();
                work()
            }))
        })
    }

    /// Moves the calling thread inside, for good.
    pub(crate) fn enter(&self) {
        // Changing mounts also changes the working directory, which commands with relative paths rely on.
        let folder = env::current_dir().expect("cannot read the working directory");
        unshare(UnshareFlags::FS).expect("cannot unshare the working directory");
        for (namespace, kind) in [(&self.mounts, LinkNameSpaceType::Mount), (&self.network, LinkNameSpaceType::Network)]
        {
            move_into_link_name_space(namespace.as_fd(), Some(kind)).expect("cannot enter a namespace");
        }
        env::set_current_dir(folder).expect("cannot return to the working directory");
    }

    /// A path by which other processes reach the network namespace.
    pub(crate) fn network_path(&self) -> String {
        use std::os::fd::AsRawFd as _;
        format!("/proc/{}/fd/{}", std::process::id(), self.network.as_raw_fd())
    }

    /// The one that the calling thread is in.
    fn current() -> io::Result<Self> {
        let open = |kind| File::open(format!("/proc/thread-self/ns/{kind}")).map(OwnedFd::from);
        Ok(Self { mounts: open("mnt")?, network: open("net")? })
    }
}

fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: no caller passes FILES, so that all threads go on sharing their file descriptors.
    unsafe { unshare_unsafe(flags) }
}

/// What the thread returned; if it panicked, so does the caller.
pub(crate) fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
}
