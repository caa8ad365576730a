//! The product's binary, run in the victim's namespace like an operator does.

use std::{
    env,
    ffi::OsStr,
    fs::File,
    io::{Seek as _, Write as _},
    marker::PhantomData,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;

use crate::Sandbox;

/// The begin of the line by which the product says that it waits for the lock of an instance.
pub(crate) const WAITS: &str = "ratelimit: waits for /";

/// Returns a line of a log without its time. Lines of other commands have none. Further problems of a file begin with its
/// path. Events keep their time.
pub(crate) fn without_time(line: &str) -> &str {
    let is_time = |time: &str| time.starts_with("20") && time.len() == 20 && !time.contains(' ');
    match line.split_once(' ') {
        Some((time, text)) if is_time(time) && (text.starts_with("ratelimit: ") || text.starts_with('/')) => text,
        _ => line,
    }
}

/// The binary, for one sandbox. `C` checks what it prints.
#[derive(Debug, Clone)]
pub struct Program<'a, C> {
    sandbox: &'a Sandbox,
    program: PathBuf,
    check: PhantomData<C>,
}

/// The binary, whose output nothing checks.
pub type Ratelimit<'a> = Program<'a, Unchecked>;

/// A check of what the binary prints.
pub trait Check {
    /// Checks the standard output of a command with these arguments.
    ///
    /// # Panics
    ///
    /// If the output is not as it must be.
    fn check<'a>(arguments: impl Iterator<Item = &'a OsStr>, output: &str);
}

/// Checks nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unchecked;

impl Check for Unchecked {
    fn check<'a>(_: impl Iterator<Item = &'a OsStr>, _: &str) {}
}

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl<'a, C: Check> Program<'a, C> {
    /// Returns the binary that was built with the test, or the one that `RATELIMIT_BIN` names.
    ///
    /// # Panics
    ///
    /// If it has not been built.
    #[must_use]
    pub fn new(sandbox: &'a Sandbox) -> Self {
        let named = env::var_os("RATELIMIT_BIN").map(PathBuf::from);
        Self::named(sandbox, named.or_else(|| sibling("ratelimit")))
    }

    /// Returns the binary of another version with another map layout.
    ///
    /// # Panics
    ///
    /// If it has not been built.
    #[must_use]
    pub fn other(sandbox: &'a Sandbox) -> Self {
        Self::named(sandbox, sibling("ratelimit-other"))
    }

    fn named(sandbox: &'a Sandbox, program: Option<PathBuf>) -> Self {
        let program = program.filter(|path| path.is_file());
        let program = program.expect("the ratelimit binary has not been built: run `cargo xtask test`");
        Self { sandbox, program, check: PhantomData }
    }

    /// Returns the command `ratelimit WORDS`, outside of an SSH session, for cases that the other functions do not
    /// cover.
    #[must_use]
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words.split_whitespace()).env_remove("SSH_CONNECTION");
        command
    }

    /// Copies the binary into a folder, for users who may not look where it lies. A process of its own writes the copy:
    /// a child that another test starts meanwhile would inherit an open file, and a program that is open for writing
    /// cannot run.
    #[must_use]
    pub fn copy_into(&self, folder: &Path) -> PathBuf {
        let copy = folder.join("ratelimit");
        assert!(Command::new("cp").arg(&self.program).arg(&copy).status().unwrap().success());
        copy
    }

    /// Returns the command `ratelimit WORDS` in a container without a BPF file system. Shell words `after` follow it.
    #[must_use]
    pub fn in_container(&self, words: &str, after: &str) -> Command {
        let inner = self.command(words);
        let script = format!("while umount /sys/fs/bpf 2>/dev/null; do :; done; \"$@\" {after}");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", &script, "sh"]);
        command.arg(inner.get_program()).args(inner.get_args()).env_remove("SSH_CONNECTION");
        command
    }

    /// Runs `ratelimit WORDS`.
    ///
    /// # Panics
    ///
    /// If a signal ends it.
    #[must_use]
    pub fn run(&self, words: &str) -> Output {
        self.output(&mut self.command(words))
    }

    /// Runs a command made by [`Self::command`]. On a slow machine it may say that it waits for another one, which is left
    /// out of its output. So are the times of a log.
    ///
    /// # Panics
    ///
    /// If a signal ends it.
    #[must_use]
    pub fn output(&self, command: &mut Command) -> Output {
        let output = self.sandbox.output(command);
        let text = |bytes| String::from_utf8(bytes).expect("ratelimit prints UTF-8");
        let stderr = text(output.stderr)
            .split_inclusive('\n')
            .map(without_time)
            .filter(|line| !line.starts_with(WAITS))
            .collect::<String>();
        let status = output.status.code().unwrap_or_else(|| panic!("{command:?}: {}: {stderr}", output.status));
        let stdout = text(output.stdout);
        let is_this_version =
            command.get_program() == self.program && sibling("ratelimit").as_ref() == Some(&self.program);
        if is_this_version {
            C::check(command.get_args(), &stdout);
        }
        Output { status, stdout, stderr }
    }

    /// Runs `ratelimit WORDS` with this text on standard input.
    ///
    /// # Panics
    ///
    /// If a signal ends it.
    #[must_use]
    pub fn run_with(&self, words: &str, input: &str) -> Output {
        self.output(self.command(words).stdin(stdin(input)))
    }

    /// Runs `ratelimit WORDS` with this text on standard input, and returns its output.
    ///
    /// # Panics
    ///
    /// If its exit status is not 0.
    pub fn ok_with(&self, words: &str, input: &str) -> String {
        let output = self.run_with(words, input);
        assert_eq!(output.status, 0, "ratelimit {words}: {output:?}");
        output.stdout
    }

    /// Runs `ratelimit WORDS` and returns its output.
    ///
    /// # Panics
    ///
    /// If its exit status is not 0.
    pub fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert_eq!(output.status, 0, "ratelimit {words}: {output:?}");
        output.stdout
    }

    /// Runs `ratelimit WORDS --json` and returns its output.
    ///
    /// # Panics
    ///
    /// If its exit status is not 0, or its output is not JSON.
    #[must_use]
    pub fn json(&self, words: &str) -> Value {
        let text = self.ok(&format!("{words} --json"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("ratelimit {words} --json: {error}: {text}"))
    }

    /// Runs `ratelimit WORDS`, which must fail, and returns its error.
    ///
    /// # Panics
    ///
    /// If its exit status is not 2, it has output, or its error is not one line.
    pub fn fails(&self, words: &str) -> String {
        let output = self.run(words);
        let line = output.stderr.strip_suffix('\n').unwrap_or_default();
        let as_agreed = output.status == 2 && output.stdout.is_empty() && !line.is_empty() && !line.contains('\n');
        assert!(as_agreed, "ratelimit {words} should fail with one line: {output:?}");
        line.to_owned()
    }
}

/// Returns a text as standard input.
///
/// # Panics
///
/// If the kernel cannot create a file in memory.
#[must_use]
pub fn stdin(text: &str) -> Stdio {
    let file = memfd_create("stdin", MemfdFlags::CLOEXEC).expect("cannot keep a file in memory");
    let mut file = File::from(file);
    file.write_all(text.as_bytes()).and_then(|()| file.rewind()).expect("cannot write a file in memory");
    file.into()
}

/// Returns a binary of the same build, from the folder of this executable or its parent.
fn sibling(name: &str) -> Option<PathBuf> {
    let executable = env::current_exe().ok()?;
    executable.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| Path::is_file(path))
}
