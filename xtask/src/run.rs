//! Runs a command and fails with its name when it fails.

use std::{env, ffi::OsString, os::unix::process::CommandExt as _, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::setup;

/// The cargo that runs this xtask.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// Runs `command` with our own input and output.
///
/// # Errors
///
/// When it cannot be started, or ends with another status than 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    ensure!(status.success(), "`{line}` failed ({status})");
    Ok(())
}

/// Builds product and tests in release mode, and becomes the program `name` of the tests.
///
/// # Errors
///
/// Whatever kept it from starting.
pub(crate) fn release_program(name: &str) -> Result<()> {
    release_program_with(name, &[])
}

/// The same, with arguments for the program.
///
/// # Errors
///
/// Whatever kept it from starting.
pub(crate) fn release_program_with(name: &str, arguments: &[String]) -> Result<()> {
    require_root(name)?;
    setup::run()?;
    run(cargo().args([
        "build",
        "--locked",
        "--release",
        "--package",
        "ratelimit-user",
        "--package",
        "ratelimit-tests",
    ]))?;
    let mut program = cargo();
    program
        .args(["run", "--locked", "--quiet", "--release", "--package", "ratelimit-tests", "--bin", name, "--"])
        .args(arguments);
    // It takes this process's place, so that Ctrl-C is its own to handle.
    Err(anyhow::Error::new(program.exec()).context(format!("cannot start {name}")))
}

/// The command as one would type it.
pub(crate) fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Whether this process may do everything (user id 0).
///
/// # Errors
///
/// With the command to use, when it may not.
pub(crate) fn require_root(task: &str) -> Result<()> {
    let output = Command::new("id").arg("-u").output().context("cannot run `id -u`")?;
    let root = output.stdout.trim_ascii() == b"0";
    ensure!(
        root,
        "`cargo xtask {task}` makes network namespaces and loads BPF programs: run it as root (sudo -E env \"PATH=$PATH\" cargo xtask {task})"
    );
    Ok(())
}
