//! Builds the product and a program of the tests in release mode, and runs the latter.

use std::os::unix::process::CommandExt as _;

use anyhow::Result;

use crate::{run, setup};

/// Builds the product and the program in release mode, and replaces this process with the program `name` of the tests.
///
/// # Errors
///
/// Fails if the build fails, or the program cannot be started.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Result<()> {
    with_features(name, &[], arguments)
}

/// Does the same with these features of the tests.
///
/// # Errors
///
/// Fails if the build fails, or the program cannot be started.
pub(crate) fn with_features(name: &str, features: &[&str], arguments: &[&str]) -> Result<()> {
    run::require_root(name)?;
    setup::run()?;
    let features: Vec<_> = features.iter().map(|feature| format!("--features=ratelimit-tests/{feature}")).collect();
    let packages = ["--package", "ratelimit-user", "--package", "ratelimit-tests"];
    let programs = ["--bin", "ratelimit", "--bin", name];
    run::run(run::cargo().args(["build", "--locked", "--release"]).args(packages).args(programs).args(&features))?;
    let mut program = run::cargo();
    program
        .args(["run", "--locked", "--quiet", "--release", "--package", "ratelimit-tests", "--bin", name])
        .args(&features)
        .arg("--")
        .args(arguments);
    // The program replaces this process, so that it handles Ctrl-C itself.
    Err(anyhow::Error::new(program.exec()).context(format!("cannot start {name}")))
}
