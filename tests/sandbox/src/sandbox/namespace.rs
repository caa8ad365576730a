//! Anonymous network namespaces, which the kernel removes with their last user.

use std::{
    env,
    fs::{self, File},
    io,
    os::fd::{AsFd as _, OwnedFd},
    panic,
    path::Path,
    thread,
};

use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

/// The file that names name servers.
const RESOLVER: &str = "/etc/resolv.conf";

/// The file that tells how much memory there is.
const MEMORY: &str = "/proc/meminfo";
/// What is in its place.
const TOLD_MEMORY: &str = "/run/meminfo";

/// A network namespace, and mounts that are private to the sandbox.
#[derive(Debug)]
pub struct Namespace {
    mounts: OwnedFd,
    network: OwnedFd,
}

impl Namespace {
    /// Creates two network namespaces with the same mounts: those of this process, an empty bpffs and an empty /run. No
    /// name server is named, since a host denies none of its own. The machine seems to have [little
    /// memory](Self::set_memory), so that new instances have the same size everywhere.
    ///
    /// # Panics
    ///
    /// Without the privilege to create them.
    #[must_use]
    pub fn pair() -> (Self, Self) {
        let make = || {
            unshare(UnshareFlags::NEWNS | UnshareFlags::NEWNET)?;
            mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
            mount("bpf", "/sys/fs/bpf", "bpf", MountFlags::empty(), None)?;
            mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), None)?;
            if Path::new(RESOLVER).exists() {
                let none = "/run/resolv.conf";
                File::create(none)?;
                mount_bind(none, RESOLVER)?;
            }
            set_memory(1_000_000)?;
            mount_bind(TOLD_MEMORY, MEMORY)?;
            let first = Self::current()?;
            unshare(UnshareFlags::NEWNET)?;
            Ok((first, Self::current()?))
        };
        let pair: io::Result<_> = thread::scope(|scope| join(scope.spawn(make)));
        pair.unwrap_or_else(|error| panic!("cannot make namespaces: {error}; run `cargo xtask test` as root"))
    }

    /// Makes the machine seem to have this much memory, in units of 1,024 bytes.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn set_memory(&self, kibibytes: u64) {
        self.run(|| set_memory(kibibytes)).expect("cannot write a file");
    }

    /// Runs `work` on a thread in the namespace and returns its result.
    ///
    /// # Panics
    ///
    /// If `work` panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            join(scope.spawn(|| {
                self.enter();
                work()
            }))
        })
    }

    /// Moves the calling thread into the namespace.
    pub(crate) fn enter(&self) {
        // Entering a mount namespace also changes the working directory, which commands with relative paths need.
        let folder = env::current_dir().expect("cannot read the working directory");
        unshare(UnshareFlags::FS).expect("cannot unshare the working directory");
        for (namespace, kind) in [(&self.mounts, LinkNameSpaceType::Mount), (&self.network, LinkNameSpaceType::Network)]
        {
            move_into_link_name_space(namespace.as_fd(), Some(kind)).expect("cannot enter a namespace");
        }
        env::set_current_dir(folder).expect("cannot return to the working directory");
    }

    /// Returns a path to the network namespace for other processes.
    #[must_use]
    pub fn network_path(&self) -> String {
        use std::os::fd::AsRawFd as _;
        format!("/proc/{}/fd/{}", std::process::id(), self.network.as_raw_fd())
    }

    /// Returns the namespaces of the calling thread.
    fn current() -> io::Result<Self> {
        let open = |kind| File::open(format!("/proc/thread-self/ns/{kind}")).map(OwnedFd::from);
        Ok(Self { mounts: open("mnt")?, network: open("net")? })
    }
}

/// Writes how much memory the machine tells.
fn set_memory(kibibytes: u64) -> io::Result<()> {
    fs::write(TOLD_MEMORY, format!("MemTotal: {kibibytes} kB\n"))
}

fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: no caller passes FILES, so all threads still share their file descriptors.
    unsafe { unshare_unsafe(flags) }
}

/// Joins a thread and returns its result, or resumes its panic.
pub(crate) fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
}
