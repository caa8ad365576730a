//! Failures of the folder that holds the pins.

use std::path::{Path, PathBuf};

use crate::pins::mounts::Uncover;

/// Why a folder cannot hold the pins.
#[derive(Debug, thiserror::Error)]
pub enum PinsError {
    /// It is not on a BPF file system.
    #[error("{} is not on a BPF file system, where programs and maps are kept: {advice}", .path.display())]
    NoBpffs {
        /// The folder of the pins.
        path: PathBuf,
        /// What to do.
        advice: String,
    },
    /// An interface carries the program, but something is mounted over a BPF file system that may have the pins.
    #[error(
        "{}: no instance can be seen, but {interface} has ratelimit: a file system is mounted over {mount}, and hides what was pinned there; {uncover}; then try again; until then, the limits stay", .path.display(), mount = .mount.display()
    )]
    Covered {
        /// The folder of the pins.
        path: PathBuf,
        /// An interface with the program.
        interface: String,
        /// Where it is mounted.
        mount: PathBuf,
        /// How to see what it hides.
        uncover: Uncover,
    },
    /// It can never hold pins.
    #[error("--pins {}: give a folder right below a BPF file system by its full path, such as /sys/fs/bpf/ratelimit", .0.display())]
    Folder(PathBuf),
    /// It belongs to another user, whose permissions hide it.
    #[error("{}: permission denied: only root can read the pins: run as root", .0.display())]
    NotOwner(PathBuf),
    /// Another user owns it, a folder above it, or something in it.
    #[error(
        "{path} belongs to user {owner}, who could change the limits: remove it, or give it to root with `chown -h root {path}`", path = .path.display()
    )]
    Foreign {
        /// The folder, link or pin.
        path: PathBuf,
        /// The user's id.
        owner: u32,
    },
    /// Users other than the owner can write to it, or to a folder above it.
    #[error("other users can write to {}, and so change the limits: {}", .0.display(), advice(.0))]
    Writable(PathBuf),
}

/// Returns what to do about a folder that others can write to.
fn advice(path: &Path) -> String {
    // Programs of all users need these.
    if ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|shared| path == Path::new(shared)) {
        return "choose a folder that only root can write to".to_owned();
    }
    format!("prevent that with `chmod go-w {}`", path.display())
}
