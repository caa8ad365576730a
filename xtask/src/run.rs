//! Runs commands. A command that fails is an error with its name.

use std::{
    env,
    ffi::OsString,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

/// Environment variable of cargo: what compiles the packages of the workspace.
pub(crate) const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Returns the cargo that runs this xtask.
///
/// It does not get what cargo has told xtask about its package. The build script of ring looks at it. So a library would
/// be built again after each cargo of the developer.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    let is_of_package = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_package(name)) {
        cargo.env_remove(name);
    }
    cargo
}

/// Runs `command` with the input and output of this process.
///
/// # Errors
///
/// Fails if the command cannot be started, or ends with another status than 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    ensure!(status.success(), "`{line}` failed ({status})");
    Ok(())
}

/// Runs `command`, which must succeed, and returns its output.
///
/// # Errors
///
/// Fails if the command cannot be started, or ends with another status than 0. The error contains its messages.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output = command.output().with_context(|| format!("cannot run `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs cargo with these arguments. Returns its messages about executables.
///
/// # Errors
///
/// Fails if the build fails.
pub(crate) fn executables(words: &[&str]) -> Result<Vec<serde_json::Value>> {
    let mut cargo = cargo();
    cargo.args(words).args(["--locked", "--message-format=json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "`{}` failed ({})", describe(&cargo), output.status);
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = lines.lines().filter(|line| line.starts_with('{')).map(serde_json::from_str);
    let messages: Vec<serde_json::Value> = messages.collect::<Result<_, _>>().context("cargo printed no JSON")?;
    Ok(messages.into_iter().filter(|message| message["executable"].is_string()).collect())
}

/// Returns the command as a line of a shell.
pub(crate) fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Checks that this process runs as root.
///
/// # Errors
///
/// Fails with the command to use if another user runs it.
pub(crate) fn require_root(task: &str) -> Result<()> {
    let output = Command::new("id").arg("-u").output().context("cannot run `id -u`")?;
    let root = output.stdout.trim_ascii() == b"0";
    ensure!(
        root,
        "`cargo xtask {task}` makes network namespaces and loads BPF programs: run it as root (sudo -E env \"PATH=$PATH\" cargo xtask {task})"
    );
    Ok(())
}
