//! Commands that the product and its documents print do what they say when they are pasted into a shell.

mod enforced;
mod instances;

use std::{ffi::OsStr, path::Path, process::Command};

use ratelimit_tests::{Output, Ratelimit, Sandbox};

/// A shell in which `ratelimit` is the binary under test.
struct Shell<'a> {
    sandbox: &'a Sandbox,
    path: String,
}

impl<'a> Shell<'a> {
    fn new(sandbox: &'a Sandbox, ratelimit: &Ratelimit<'_>) -> Self {
        let command = ratelimit.command("");
        let folder = Path::new(command.get_program()).parent().map(Path::as_os_str).and_then(OsStr::to_str);
        Self { sandbox, path: format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.unwrap()) }
    }

    /// Returns the shell that runs this line.
    fn command(&self, line: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("PATH", &self.path).env_remove("SSH_CONNECTION");
        shell
    }

    /// Runs a line as an operator who pastes it.
    fn paste(&self, line: &str) -> Output {
        let output = self.sandbox.output(&mut self.command(line));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Output { status: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Does so with a line that must succeed, and returns its output.
    fn ok(&self, line: &str) -> String {
        let output = self.paste(line);
        assert_eq!(output.status, 0, "{line}: {output:?}");
        output.stdout
    }
}

/// Returns the commands of a text: those in backticks, and lines that consist of one.
fn commands(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let lines = text.lines().map(|line| line.trim().trim_start_matches("fix: "));
    let is_command = |text: &&str| text.starts_with("ratelimit ") || text.starts_with("sudo ratelimit ");
    quoted.chain(lines).filter(is_command).map(str::to_owned).collect()
}
