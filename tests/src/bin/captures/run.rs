//! Programs that run to completion.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Runs a program in the calling thread's namespace until it exits.
pub(crate) fn run(words: &str) -> Result<()> {
    let mut split = words.split_whitespace();
    let program = split.next().context("no program")?;
    let output = Command::new(program).args(split).output();
    let output = output.with_context(|| format!("cannot run {program}: is its package installed?"))?;
    let text = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "`{words}` failed ({}): {}", output.status, String::from_utf8_lossy(&text));
    Ok(())
}
