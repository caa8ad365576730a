//! The process that holds a file lock or a BPF link, as the kernel tells it.

use std::{fmt, fs, os::fd::AsFd};

use rustix::fs::{fstat, major, minor};

use super::lock_thread::Work;

/// The kernel's list of file locks.
const LOCKS: &str = "/proc/locks";

/// Characters of a command that are shown.
const MOST_SHOWN: usize = 60;

/// The process that holds a lock or a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A process of this machine or container.
    Process {
        /// Its id.
        id: u32,
        /// Its command line.
        command: String,
        /// Whether a signal has stopped it.
        is_stopped: bool,
    },
    /// A process that this one cannot see.
    Hidden,
}

impl Holder {
    /// Returns the process that holds a lock on this file.
    #[must_use]
    pub fn of(file: impl AsFd) -> Self {
        Self::id_of(file).map_or(Self::Hidden, Self::process)
    }

    /// Returns the id of the process that holds a lock on this file. None if this process cannot see it.
    pub fn id_of(file: impl AsFd) -> Option<u32> {
        let found = fstat(file).ok()?;
        let locks = fs::read_to_string(LOCKS).unwrap_or_default();
        held_by(&locks, &format!("{:02x}:{:02x}:{}", major(found.st_dev), minor(found.st_dev), found.st_ino))
    }

    /// Returns a process with a descriptor of the BPF link with this id.
    #[must_use]
    pub fn of_link(link: u32) -> Self {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let found = processes.find(|process| has_link(*process, link));
        found.map_or(Self::Hidden, Self::process)
    }

    fn process(id: u32) -> Self {
        Self::Process { id, command: command(id), is_stopped: Work::of(id).is_some_and(|work| work.is_stopped()) }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { id, command, is_stopped } => {
                write!(out, "process {id} ({command}){}", if *is_stopped { ", which is stopped" } else { "" })
            }
            Self::Hidden => write!(out, "a process that is not visible here, such as one in another container"),
        }
    }
}

fn has_link(process: u32, link: u32) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut links = descriptors.filter(|entry| {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        matches!(target.to_str(), Some("anon_inode:bpf_link" | "anon_inode:bpf-link"))
    });
    links.any(|entry| {
        let about = fs::read_to_string(format!("/proc/{process}/fdinfo/{}", entry.file_name().display()));
        let about = about.unwrap_or_default();
        about.lines().any(|line| line.strip_prefix("link_id:").is_some_and(|id| id.trim().parse() == Ok(link)))
    })
}

/// Returns the process that the list names as the holder of a lock on a file.
fn held_by(locks: &str, place: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        // A process that waits has an arrow before the kind of its lock.
        let [_, kind, _, _, process, file, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        (kind == "FLOCK" && file == place).then(|| process.parse().ok()).flatten()
    })
}

/// Returns the command line of a process in one line.
fn command(id: u32) -> String {
    let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    let words = words.trim_end_matches('\0').replace(|c: char| c.is_control(), " ");
    let shown: String = words.chars().take(MOST_SHOWN).collect();
    match () {
        () if shown.is_empty() => "unknown command".to_owned(),
        () if shown.len() < words.len() => shown + "…",
        () => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_by_the_file_and_not_a_process_that_waits() {
        let locks = "\
            1: POSIX  ADVISORY  WRITE 11 00:1f:7 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 12 00:1f:70 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 13 00:1f:7 0 EOF\n\
            3: -> FLOCK  ADVISORY  WRITE 14 00:1f:7 0 EOF\n";
        assert_eq!(held_by(locks, "00:1f:7"), Some(13));
        assert_eq!(held_by(locks, "00:1f:70"), Some(12));
        assert_eq!(held_by(locks, "00:1f:71"), None);
        assert_eq!(held_by("3: -> FLOCK  ADVISORY  WRITE 14 00:1f:7 0 EOF\n", "00:1f:7"), None);
        assert_eq!(held_by("", "00:1f:7"), None);
    }

    #[test]
    fn a_command_line_is_one_line() {
        let own = command(std::process::id());
        assert!(!own.is_empty() && !own.contains(char::is_control), "{own}");
        assert_eq!(command(u32::MAX), "unknown command");
    }
}
