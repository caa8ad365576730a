//! The product's daemon with its configuration file.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{ChildStderr, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::process::Signal;

use crate::{Process, Ratelimit, Sandbox};

/// A folder for one file, removed on drop.
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

    /// Replaces the file with this text atomically.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn write(&self, text: &str) {
        let fresh = self.0.join("fresh");
        fs::write(&fresh, text).unwrap();
        fs::rename(&fresh, self.file()).unwrap();
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
    pub fn start(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, file: &Path) -> Self {
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

    /// Returns the next line of output.
    ///
    /// # Panics
    ///
    /// If the output is not text.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Ends the daemon.
    ///
    /// # Panics
    ///
    /// If it does not exit successfully.
    pub fn end(mut self) {
        self.process.signal(Signal::TERM);
        // A child of another test that was just starting may have had the file open for writing. Closing it looks like
        // another change.
        let mut line = self.line();
        while line.contains(": reloaded, rules: 0 set, 0 deleted, ") {
            line = self.line();
        }
        assert_eq!(line, "ratelimit: ended; limits stay in force without a daemon");
        assert!(self.process.wait().status.success());
    }
}
