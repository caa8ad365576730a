//! The product's daemon with its configuration file.

use std::{
    fs::{self, Permissions},
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{ChildStderr, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::process::Signal;

use crate::{
    Check, Process, Program, Sandbox,
    product::ratelimit::{WAITS, without_time},
};

/// The end of the line that an interface is gone.
const GONE: &str = ": gone, and not limited any more: the daemon attaches to it when it is back\n";

/// A folder for a file and those that it names, removed on drop.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "making folders is nothing that happens by default")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ratelimit-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.0.join("ratelimit.toml")
    }

    /// Writes another file, which only its owner can read.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    #[must_use]
    pub fn add(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Replaces the file with this text atomically.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn write(&self, text: &str) {
        let [fresh, linked] = ["fresh", "linked"].map(|name| self.0.join(name));
        if fresh.exists() {
            fs::remove_file(&fresh).unwrap();
        }
        fs::write(&fresh, text).unwrap();
        // A child of another test that is just starting may have the file open for writing until it executes its program.
        // The kernel reports that late end of writing under the name by which the file was opened.
        fs::hard_link(&fresh, &linked).unwrap();
        fs::rename(&linked, self.file()).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The daemon and its output.
#[derive(Debug)]
pub struct Daemon {
    /// The process.
    pub process: Process,
    lines: BufReader<ChildStderr>,
}

impl Daemon {
    /// Starts the daemon with this file.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn start(sandbox: &Sandbox, ratelimit: &Program<'_, impl Check>, file: &Path) -> Self {
        Self::by(sandbox, ratelimit.command(&format!("run -c {}", file.display())))
    }

    /// Starts the daemon by this command.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn by(sandbox: &Sandbox, mut command: Command) -> Self {
        command.stderr(Stdio::piped());
        let mut process = sandbox.start(command);
        let lines = BufReader::new(process.child.stderr.take().unwrap());
        Self { process, lines }
    }

    /// Returns the next message of the daemon itself, without its time. Events are skipped. So is that it waits for a
    /// command, or that an interface is gone, because the machine may be too slow or too fast for that.
    ///
    /// # Panics
    ///
    /// If the output is not text.
    pub fn line(&mut self) -> String {
        self.next(|line| !line.starts_with("20") && !line.starts_with(WAITS) && !line.ends_with(GONE))
    }

    /// Returns the next line of the log without its time, whatever it is.
    ///
    /// # Panics
    ///
    /// If the output is not text.
    pub fn any_line(&mut self) -> String {
        self.next(|_| true)
    }

    /// Returns the next line that says that an interface is gone.
    ///
    /// # Panics
    ///
    /// If the output is not text.
    pub fn gone_line(&mut self) -> String {
        self.next(|line| line.ends_with(GONE))
    }

    /// Returns the next line that says that the daemon waits for the lock of its instance.
    ///
    /// # Panics
    ///
    /// If the output is not text.
    pub fn wait_line(&mut self) -> String {
        self.next(|line| line.starts_with(WAITS))
    }

    /// Returns the next event in the daemon's log.
    ///
    /// # Panics
    ///
    /// If the output is not text.
    pub fn event(&mut self) -> String {
        self.next(|line| line.starts_with("20"))
    }

    fn next(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let mut line = String::new();
            let count = self.lines.read_line(&mut line).unwrap();
            let line = without_time(&line);
            if count == 0 || is_wanted(line) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Ends the daemon.
    ///
    /// # Panics
    ///
    /// If it does not exit successfully.
    pub fn end(mut self) {
        self.process.signal(Signal::TERM);
        // Whether the engine of a fleet answers is another message at any time.
        let others = ["20", "ratelimit: fleet:", WAITS];
        let line = self.next(|line| !line.ends_with(GONE) && !others.iter().any(|other| line.starts_with(other)));
        assert_eq!(line, "ratelimit: ended; limits stay in force without a daemon");
        assert!(self.process.wait().status.success());
    }
}
