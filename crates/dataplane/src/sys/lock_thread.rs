//! Whether the thread that has a lock works.
//!
//! The kernel tells only the process that has a lock. A daemon has threads that work whatever the one with the lock does.
//! So each thread with the lock, unless it is the main one, has a name by which others find it.

use std::{ffi::CString, fs};

use rustix::thread::{Pid, gettid, name, set_name};

/// The name of a thread that has the lock. The kernel keeps 15 bytes.
const NAME: &str = "has-pins-lock";

/// A thread that has this name until this is dropped.
#[derive(Debug)]
pub(crate) struct Marked {
    thread: Pid,
    /// The name before. None for a main thread, because its name is that of the process.
    before: Option<CString>,
}

impl Marked {
    /// Marks the calling thread.
    pub(crate) fn new() -> Self {
        let thread = gettid();
        let is_main = thread == rustix::process::getpid();
        let before = name().ok().filter(|_| !is_main);
        // Without the name, others see what the main thread does.
        let _ = before.as_ref().and_then(|_| CString::new(NAME).ok()).map(|name| set_name(&name));
        Self { thread, before }
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        if let Some(before) = self.before.as_ref().filter(|_| gettid() == self.thread) {
            let _ = set_name(before);
        }
    }
}

/// What a thread has done so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Work {
    thread: u32,
    state: char,
    /// Its CPU time by itself and in the kernel, in ticks.
    ticks: [u64; 2],
}

impl Work {
    /// Returns the work of the thread of a process that has the lock, or of its main thread. None without the process.
    pub(crate) fn of(process: u32) -> Option<Self> {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let marked = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(|thread: &u32| {
            fs::read(format!("/proc/{process}/task/{thread}/comm"))
                .is_ok_and(|name| name.trim_ascii() == NAME.as_bytes())
        });
        let thread = marked.unwrap_or(process);
        Self::parsed(thread, &String::from_utf8_lossy(&fs::read(format!("/proc/{process}/task/{thread}/stat")).ok()?))
    }

    /// Reads proc_pid_stat(5).
    fn parsed(thread: u32, stat: &str) -> Option<Self> {
        // The name in parentheses can have spaces and parentheses.
        let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let ticks = [fields.get(11)?.parse().ok()?, fields.get(12)?.parse().ok()?];
        Some(Self { thread, state: fields.first()?.chars().next()?, ticks })
    }

    /// Returns whether it has a CPU, or waits for one.
    pub(crate) fn is_runnable(&self) -> bool {
        self.state == 'R'
    }

    /// Returns whether a signal or a debugger has stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

#[cfg(test)]
mod tests {
    use std::{process, thread};

    use super::*;

    #[test]
    fn the_marked_thread_counts_and_not_the_main_one() {
        let own = || Work::of(process::id()).unwrap();
        assert_eq!(own().thread, process::id());
        thread::spawn(move || {
            let before = name().unwrap();
            let marked = Marked::new();
            let id = gettid().as_raw_nonzero().get() as u32;
            let first = own();
            assert_eq!((first.thread, first.is_runnable()), (id, true));
            while own().ticks == first.ticks {}
            drop(marked);
            assert_eq!((name().unwrap(), own().thread), (before, process::id()));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_name_of_a_thread_can_have_parentheses() {
        let stat = "7 (a) R (b) T 1 1 1 0 -1 64 1 2 3 4 55 66 0 0 20 0 1 0";
        let work = Work::parsed(7, stat).unwrap();
        assert_eq!(work, Work { thread: 7, state: 'T', ticks: [55, 66] });
        assert!(work.is_stopped() && !work.is_runnable());
        assert_eq!(Work::parsed(7, "7 (a) R 1"), None);
    }
}
