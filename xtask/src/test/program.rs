//! Test programs: cargo builds them, and xtask runs them. Cargo itself would not run the next one after a failure, or
//! would not tell at the end which tests have failed.

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use crate::run;

/// Environment variable for the number of tests that run at a time.
const THREADS: &str = "RUST_TEST_THREADS";

/// How long the last lines of a program that has ended may take.
const LAST_LINES: Duration = Duration::from_secs(10);

/// A built test program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    executable: PathBuf,
    /// The folder of its package, in which cargo runs tests.
    folder: PathBuf,
}

/// Builds all test programs, and the command that they run.
pub(crate) fn build() -> Result<Vec<Program>> {
    // In one build: libraries of tests have more features, and a build of the command alone would compile them twice.
    let built = run::executables(&["build", "--workspace", "--bin", "ratelimit", "--tests"])?;
    let tests = built.iter().filter(|built| built["profile"]["test"] == true);
    let program = |built: &serde_json::Value| {
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let folder = Path::new(built["manifest_path"].as_str()?).parent()?.to_owned();
        let kind = if built["target"]["kind"][0] == "lib" { " (library)" } else { "" };
        let name = text(&built["target"]["name"])? + kind;
        Some(Program { name, executable: text(&built["executable"])?.into(), folder })
    };
    tests.map(|built| program(built).context("cargo names no executable")).collect()
}

impl Program {
    /// Whether it has a test that these arguments choose.
    pub(crate) fn has(&self, filter: &[String]) -> Result<bool> {
        let list = run::output(Command::new(&self.executable).current_dir(&self.folder).args(filter).arg("--list"))?;
        Ok(list.lines().any(|line| line.ends_with(": test")))
    }

    /// Runs the tests that these arguments choose, so many at a time. Returns which have failed.
    pub(crate) fn run(&self, threads: usize, filter: &[String]) -> Result<Option<String>> {
        println!("\ntest: {} ({})", self.name, self.executable.display());
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).args(filter).stdout(Stdio::piped());
        if env::var_os(THREADS).is_none() {
            command.env(THREADS, threads.to_string());
        }
        let mut child = command.spawn().with_context(|| format!("cannot run {}", self.executable.display()))?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let (failed_tests, failed) = mpsc::channel();
        let reader = thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                println!("{line}");
                let _ = failed_test(&line).map(|test| failed_tests.send(test.to_owned()));
            }
        });
        let status = child.wait()?;
        // A process that a test has left behind would keep the output open for as long as it runs.
        let begin = Instant::now();
        while !reader.is_finished() && begin.elapsed() < LAST_LINES {
            thread::sleep(Duration::from_millis(10));
        }
        let mut problems: Vec<_> = failed.try_iter().collect();
        if !reader.is_finished() {
            problems.push("a process that a test started still runs".to_owned());
        } else if problems.is_empty() && !status.success() {
            problems.push(status.to_string());
        }
        Ok((!problems.is_empty()).then(|| format!("{}: {}", self.name, problems.join(", "))))
    }
}

/// Returns the test that has failed according to a line of a test program.
fn failed_test(line: &str) -> Option<&str> {
    let test = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(test.trim_end_matches(" - should panic"))
}

#[cfg(test)]
mod tests {
    use super::failed_test;

    #[test]
    fn lines_name_failed_tests() {
        assert_eq!(failed_test("test attach::one ... FAILED"), Some("attach::one"));
        assert_eq!(failed_test("test attach::two - should panic ... FAILED"), Some("attach::two"));
        for line in ["test attach::one ... ok", "test result: FAILED. 1 passed; 1 failed", "failures:"] {
            assert_eq!(failed_test(line), None);
        }
    }
}
