//! The processes that this one descends from.

use std::{fs::File, io::Read as _, iter, os::unix::process::parent_id};

/// The number of processes that are searched. A session is seldom more than a few shells deep.
const MOST: usize = 32;

/// The number of bytes that one call reads.
const STEP: usize = 1 << 16;

/// Returns the parent of this process, its parent, and so on.
pub fn of_this() -> impl Iterator<Item = u32> {
    iter::successors(Some(parent_id()), |&process| parent(process)).take(MOST)
}

/// Reads a file of /proc, which has no size, in as few calls as possible.
#[must_use]
pub fn read(path: &str) -> Option<Vec<u8>> {
    let (mut file, mut all) = (File::open(path).ok()?, Vec::new());
    loop {
        let mut bytes = vec![0; STEP];
        let length = file.read(&mut bytes).ok()?;
        all.extend_from_slice(bytes.get(..length)?);
        if length < STEP {
            return Some(all);
        }
    }
}

fn parent(process: u32) -> Option<u32> {
    let status = read(&format!("/proc/{process}/status"))?;
    let status = String::from_utf8_lossy(&status);
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok().filter(|&parent| parent > 0)
}
