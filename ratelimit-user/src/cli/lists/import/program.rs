//! The programs of packet filters, and what is read from them.

use std::{
    io::{self, ErrorKind},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

/// The entries of a set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entries {
    /// One per line, as feeds have them.
    pub(crate) text: String,
    /// The number of entries that end there by themselves.
    pub(crate) timed: usize,
}

/// Returns the output of a program, which is in a package of this name.
pub(super) fn output(program: &str, arguments: &[&str], package: &str) -> Result<Vec<u8>> {
    let output = Command::new(program).args(arguments).output();
    let missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    if output.as_ref().is_err_and(missing) {
        bail!("there is no program {program}: install {package}");
    }
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{program}: {}", text.lines().next().unwrap_or("it failed without a message"));
    }
    Ok(output.stdout)
}
