//! The environment of one test: a victim, a peer that sends all traffic, and a private bpffs.

pub(crate) mod addresses;
pub(crate) mod kernel;
pub(crate) mod link;
pub(crate) mod namespace;
pub(crate) mod process;
pub(crate) mod queues;

use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crate::{Namespace, PEER_LINK, Process, VICTIM_LINK};

/// A victim and a peer, connected by one link. They exist only in this process and end with it.
#[derive(Debug)]
pub struct Sandbox {
    victim: Arc<Namespace>,
    peer: Arc<Namespace>,
    leaves_pins: AtomicBool,
}

impl Sandbox {
    /// Creates a sandbox. Any number can exist at a time.
    ///
    /// # Panics
    ///
    /// Without root, or without iproute2.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "making namespaces is nothing that happens by default")]
    pub fn new() -> Self {
        let (victim, peer) = Namespace::pair();
        link::connect(&victim, &peer);
        Self { victim: Arc::new(victim), peer: Arc::new(peer), leaves_pins: AtomicBool::new(false) }
    }

    /// Runs `work` on a thread in the victim's namespace and returns its result.
    ///
    /// # Panics
    ///
    /// If `work` panics.
    pub fn victim<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.victim.run(work)
    }

    /// Runs `work` on a thread in the peer's namespace and returns its result.
    ///
    /// # Panics
    ///
    /// If `work` panics.
    pub fn peer<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.peer.run(work)
    }

    /// Runs a program in the victim's namespace until it exits.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn output(&self, command: &mut Command) -> Output {
        process::output(&self.victim, command)
    }

    /// Starts a program in the victim's namespace.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn start(&self, command: Command) -> Process {
        Process::start(&self.victim, command)
    }

    /// Starts a program in the peer's namespace.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn start_at_peer(&self, command: Command) -> Process {
        Process::start(&self.peer, command)
    }

    /// Runs `ip` in the victim's namespace and returns its output.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn ip(&self, words: &str) -> String {
        link::ip(&self.victim, words)
    }

    /// Sets when the kernel of the victim gives SYN cookies: `2` is always.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn set_syn_cookies(&self, value: &str) {
        self.victim(|| fs::write("/proc/sys/net/ipv4/tcp_syncookies", value)).expect("cannot change a setting");
    }

    /// Deletes the link between victim and peer and creates it again.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn renew_link(&self) {
        link::ip(&self.victim, &format!("link del {VICTIM_LINK}"));
        link::connect(&self.victim, &self.peer);
    }

    /// Connects victim and peer by a further link without addresses. Its ends have these names.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn add_link(&self, victim_link: &str, peer_link: &str) {
        link::connect_without_addresses(&self.victim, &self.peer, victim_link, peer_link);
    }

    /// Creates a further network namespace, in which nothing is connected.
    ///
    /// # Panics
    ///
    /// Without the privilege to create it.
    #[must_use]
    pub fn elsewhere(&self) -> Namespace {
        Namespace::pair().0
    }

    /// Adds an address to the peer, for sockets to bind to.
    ///
    /// # Panics
    ///
    /// If it already has that address.
    pub fn add_peer_address(&self, address: impl Into<IpAddr>) {
        match address.into() {
            IpAddr::V4(address) => link::ip(&self.peer, &format!("address add {address}/32 dev {PEER_LINK}")),
            IpAddr::V6(address) => link::ip(&self.peer, &format!("address add {address}/128 dev {PEER_LINK} nodad")),
        };
    }

    /// Returns the namespace of the victim.
    #[must_use]
    pub fn victim_namespace(&self) -> &Arc<Namespace> {
        &self.victim
    }

    /// Returns the namespace that sends all traffic.
    pub(crate) fn peer_namespace(&self) -> Arc<Namespace> {
        Arc::clone(&self.peer)
    }

    /// Returns every file and folder of the private bpffs.
    #[must_use]
    pub fn pins(&self) -> Vec<PathBuf> {
        let mut pins = self.victim(|| entries(Path::new("/sys/fs/bpf")));
        // Some kernels put two iterators of their own into every bpffs.
        pins.retain(|path| path.extension().is_none_or(|extension| extension != "debug"));
        pins
    }

    /// Permits pins that remain after the test. Otherwise the sandbox panics on drop.
    pub fn leave_pins(&self) {
        self.leaves_pins.store(true, Ordering::Relaxed);
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !thread::panicking() && !self.leaves_pins.load(Ordering::Relaxed) {
            let pins = self.pins();
            assert!(pins.is_empty(), "left behind: {pins:?}");
            let links = self.ip("link show");
            assert!(!links.contains("xdp"), "a program is left on an interface: {links}");
        }
    }
}

/// Returns all entries below `folder`.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let listed = match fs::read_dir(folder) {
        // A process has removed it since its parent was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return found,
        listed => listed.expect("cannot list the bpffs"),
    };
    for entry in listed.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(entries(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}
