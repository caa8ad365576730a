//! Where BPF file systems are mounted, and what is mounted over one of them.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use ratelimit_base::text::excerpt::escaped;

/// The mounts of this process (proc(5)).
const MOUNTS: &str = "/proc/self/mountinfo";

/// Where to move what covers pins.
const MOVED: &str = "/run/bpf-moved";

/// How many names a message has.
const SHOWN: usize = 3;

/// What the kernel itself pins in each BPF file system (kernel/bpf/preload).
const OF_KERNEL: [&str; 2] = ["maps.debug", "progs.debug"];

/// The kind of the BPF file system.
const BPF: &str = "bpf";

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: u32,
    /// The mount that it is mounted on.
    parent: u32,
    folder: PathBuf,
    kind: String,
}

/// Returns the folders at which BPF file systems are mounted, each once.
pub fn of_bpf() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        all().into_iter().filter(|mount| mount.kind == BPF).map(|mount| mount.folder).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// Returns the folder at which something is mounted over a BPF file system that may have these pins.
#[must_use]
pub fn over(pins: &Path) -> Option<PathBuf> {
    cover(&all(), pins)
}

/// Returns a folder at which something is mounted over a BPF file system.
pub fn covered() -> Option<PathBuf> {
    let all = all();
    let covers = |mount: &&Mount| is_on_bpf(&all, mount);
    all.iter().find(covers).map(|mount| mount.folder.clone())
}

/// Returns the command that shows what lies below what is mounted over a folder. What covers it may have pins of others,
/// which end with the last mount of their file system. So it is unmounted only if it is empty, or has another mount.
/// `mount --move` would do, but the kernel refuses it below a shared mount, as systemd makes them.
#[must_use]
pub fn uncover(folder: &Path) -> Uncover {
    let mut names: Vec<String> = match fs::read_dir(folder) {
        Ok(entries) => {
            let names = entries.flatten().map(|entry| escaped(&entry.file_name().to_string_lossy()));
            names.filter(|name| !OF_KERNEL.contains(&name.as_str())).collect()
        }
        // Nobody knows what is there.
        Err(_) => vec!["what this user may not see".to_owned()],
    };
    names.sort();
    let count = names.len();
    names.truncate(SHOWN);
    let further = if count > SHOWN { format!(" and {} more", count - SHOWN) } else { String::new() };
    Uncover { folder: folder.to_owned(), holds: format!("{}{further}", names.join(", ")) }
}

/// How to see what lies below a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncover {
    folder: PathBuf,
    /// What is mounted over it, by name. Empty if that is nothing.
    holds: String,
}

impl fmt::Display for Uncover {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.display();
        if self.holds.is_empty() {
            return write!(out, "it is empty: `umount {folder}` removes it");
        }
        write!(
            out,
            "it holds pins of others ({}), which `umount {folder}` alone would end: move it with `mkdir -p {MOVED} && mount --bind {folder} {MOVED} && umount {folder}`",
            self.holds
        )
    }
}

fn all() -> Vec<Mount> {
    fs::read_to_string(MOUNTS).unwrap_or_default().lines().filter_map(read).collect()
}

fn cover(all: &[Mount], pins: &Path) -> Option<PathBuf> {
    let deepest = all.iter().filter(|mount| pins.starts_with(&mount.folder)).map(|mount| &mount.folder);
    let folder = deepest.max_by_key(|folder| folder.components().count())?;
    let mut here = all.iter().filter(|mount| mount.folder == *folder);
    here.any(|mount| is_on_bpf(all, mount)).then(|| folder.clone())
}

/// Returns whether a mount covers a part of a BPF file system.
fn is_on_bpf(all: &[Mount], mount: &Mount) -> bool {
    all.iter().any(|below| below.id == mount.parent && below.kind == BPF)
}

/// Reads a line: `43 23 0:39 / /sys/fs/bpf rw - bpf bpf rw`.
fn read(line: &str) -> Option<Mount> {
    let (first, last) = line.split_once(" - ")?;
    let [id, parent, _, _, folder, ..] = first.split(' ').collect::<Vec<_>>()[..] else { return None };
    let folder = folder.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\");
    let kind = last.split(' ').next()?.to_owned();
    Some(Mount { id: id.parse().ok()?, parent: parent.parse().ok()?, folder: folder.into(), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_over_pins_is_found() {
        let usual = "22 1 8:1 / / rw - ext4 /dev/sda rw\n23 22 0:5 / /sys rw shared:1 - sysfs sysfs rw\n43 23 0:39 / /sys/fs/bpf rw - bpf bpf rw\n";
        let of = |more: &str, pins: &str| {
            let all: Vec<Mount> = [usual, more].concat().lines().filter_map(read).collect();
            cover(&all, Path::new(pins)).map(|folder| folder.display().to_string())
        };
        let (pins, folder) = ("/sys/fs/bpf/ratelimit", Some("/sys/fs/bpf".to_owned()));
        assert_eq!(of("", pins), None);
        assert_eq!(of("44 43 0:40 / /sys/fs/bpf rw - bpf bpf rw\n", pins), folder);
        assert_eq!(of("44 43 0:40 / /sys/fs/bpf rw - tmpfs none rw\n", pins), folder);
        // A third one over both.
        let three = "44 43 0:40 / /sys/fs/bpf rw - tmpfs none rw\n45 44 0:41 / /sys/fs/bpf rw - bpf bpf rw\n";
        assert_eq!(of(three, pins), folder);
        // The pins themselves.
        let itself = "44 43 0:40 / /sys/fs/bpf/ratelimit rw - bpf bpf rw\n";
        assert_eq!(of(itself, pins), Some(pins.to_owned()));
        assert_eq!(of(itself, "/sys/fs/bpf/ratelimit2"), None);
        assert_eq!(of("44 22 0:40 / /run/my\\040bpf rw - bpf bpf rw\n", "/run/my bpf/x"), None);
        assert_eq!(
            of("44 22 0:40 / /run/a rw - bpf bpf rw\n45 44 0:41 / /run/a rw - bpf bpf rw\n", "/run/a/x"),
            Some("/run/a".to_owned())
        );
    }

    #[test]
    fn what_covers_pins_is_unmounted_only_if_it_is_empty() {
        let folder = std::env::temp_dir().join(format!("ratelimit-uncover-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let shown = folder.display();
        fs::create_dir(folder.join(OF_KERNEL[0])).unwrap();
        assert_eq!(uncover(&folder).to_string(), format!("it is empty: `umount {shown}` removes it"));
        for name in ["tool", "b", "c", "d"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        let text = uncover(&folder).to_string();
        let begin = format!("it holds pins of others (b, c, d and 1 more), which `umount {shown}` alone would end: ");
        let advice = format!("move it with `mkdir -p {MOVED} && mount --bind {shown} {MOVED} && umount {shown}`");
        assert_eq!(text, begin + &advice);
        fs::remove_dir_all(&folder).unwrap();
        // It may have anything.
        assert!(uncover(&folder).to_string().contains("(what this user may not see)"));
    }
}
