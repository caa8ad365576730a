//! Builds the product and a program of the tests in release mode, and runs the latter.

use std::{os::unix::process::CommandExt as _, process::Command};

use anyhow::Result;

use crate::{run, setup, target};

/// Builds the product and the program in release mode, and replaces this process with the program `name` of the tests.
///
/// # Errors
///
/// Fails if the build fails, or the program cannot be started.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Result<()> {
    built(name, "ratelimit-tests", None, arguments)
}

/// Does the same with the benchmark, with this feature.
///
/// # Errors
///
/// Fails if the build fails, or the program cannot be started.
pub(crate) fn bench(feature: &str, arguments: &[&str]) -> Result<()> {
    built("bench", "ratelimit-bench", Some(feature), arguments)
}

fn built(name: &str, package: &str, feature: Option<&str>, arguments: &[&str]) -> Result<()> {
    run::require_root(name)?;
    setup::run()?;
    let feature = feature.map(|feature| format!("--features={package}/{feature}"));
    let packages = ["--package", "ratelimit-user", "--package", package];
    let programs = ["--bin", "ratelimit", "--bin", name];
    run::run(run::cargo().args(["build", "--locked", "--release"]).args(packages).args(programs).args(&feature))?;
    let mut program = Command::new(target::folder("release")?.join(name));
    // The program replaces this process, so that it handles Ctrl-C itself.
    Err(anyhow::Error::new(program.args(arguments).exec()).context(format!("cannot start {name}")))
}
