//! Other processes, by `/proc`.

use std::{collections::VecDeque, fs::File, io::Read as _, iter, os::unix::process::parent_id};

/// The number of processes that are searched. A session is seldom more than a few shells deep.
const MOST: usize = 32;

/// The number of bytes that one call reads.
const STEP: usize = 1 << 16;

/// Returns the parent of this process, its parent, and so on.
pub fn ancestors() -> impl Iterator<Item = u32> {
    iter::successors(Some(parent_id()), |&process| parent(process)).take(MOST)
}

/// Returns the children of a process, then their children, and so on.
pub fn descendants(process: u32) -> impl Iterator<Item = u32> {
    let mut found = VecDeque::from(children(process));
    let next = move || {
        let process = found.pop_front()?;
        found.extend(children(process));
        Some(process)
    };
    iter::from_fn(next).take(MOST)
}

/// Returns the value of a variable in the environment with which a process was started.
pub fn variable(process: u32, name: &str) -> Option<String> {
    let environment = read(&format!("/proc/{process}/environ"))?;
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Reads a file of /proc, which has no size, in as few calls as possible.
fn read(path: &str) -> Option<Vec<u8>> {
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

/// Returns the children of the first thread of a process.
fn children(process: u32) -> Vec<u32> {
    let list = read(&format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    String::from_utf8_lossy(&list).split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn parent(process: u32) -> Option<u32> {
    let status = read(&format!("/proc/{process}/status"))?;
    let status = String::from_utf8_lossy(&status);
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok().filter(|&parent| parent > 0)
}
