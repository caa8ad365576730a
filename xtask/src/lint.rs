//! `cargo xtask lint`: documents, structure, format, lints of both sides, documentation of the code.

use std::{env, process::Command};

use anyhow::{Context as _, Result, ensure};
use ratelimit_build::Toolchain;
use xtask::documents::{self, commands::Accepts};

use crate::{
    run::{self, WRAPPER},
    size::KERNEL_PACKAGES,
    target,
};

/// The compiler with lints.
const CLIPPY: &str = "clippy-driver";
/// Environment variable with its arguments.
const ARGUMENTS: &str = "CLIPPY_ARGS";
/// The arguments that make each warning an error, with the separator of clippy.
const DENY: &str = "--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the documents: line length, length of sentences, links, and commands in code blocks
    #[arg(long)]
    documents: bool,
}

/// Runs all checks; `accepts` parses the words behind `cargo xtask`.
pub(crate) fn run(args: &Args, accepts: Accepts<'_>) -> Result<()> {
    // Both report their findings before either ends the lint.
    let (prose, commands) = (prose(accepts), commands());
    prose.and(commands)?;
    if args.documents {
        return Ok(());
    }
    run::run(run::cargo().args(["test", "--locked", "--quiet", "--workspace", "--test", "structure"]))?;
    run::run(run::cargo().args(["fmt", "--all", "--check"]))?;
    run::run(&mut lints())?;
    let toolchain = Toolchain::find().context("no compiler for the kernel side: run `cargo xtask setup`")?;
    ensure!(toolchain.has_clippy(), "{toolchain} comes without clippy: run `cargo xtask setup`");
    for package in KERNEL_PACKAGES {
        let mut clippy = toolchain.cargo("clippy", package);
        // The packaged clippy takes its arguments from this variable.
        clippy.env(ARGUMENTS, DENY).args(["--target-dir", "target/kernel"]);
        run::run(&mut clippy)?;
    }
    let mut doc = run::cargo();
    doc.args(["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"]);
    run::run(doc.env("RUSTDOCFLAGS", "--deny warnings"))
}

/// Returns the command for the lints of the user side. Where each build has them, as in CI, it builds what tests need.
fn lints() -> Command {
    let mut cargo = run::cargo();
    let is_in_builds = env::var_os(WRAPPER).is_some_and(|wrapper| wrapper == CLIPPY)
        && env::var_os(ARGUMENTS).is_some_and(|arguments| arguments == DENY);
    if is_in_builds {
        cargo.args(["test", "--locked", "--no-run", "--workspace", "--all-targets"]);
    } else {
        cargo.env_remove(WRAPPER).args([
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ]);
    }
    cargo
}

/// Checks the documents for all but the commands of the product.
fn prose(accepts: Accepts<'_>) -> Result<()> {
    let findings = documents::check(&target::workspace(), accepts)?;
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    ensure!(findings.is_empty(), "{} findings in the documents", findings.len());
    Ok(())
}

/// Checks that the product accepts its commands in the documents. A test does so, since xtask builds without the
/// product.
fn commands() -> Result<()> {
    let mut test = run::cargo();
    test.args(["test", "--locked", "--quiet", "--workspace", "--test", "documents", "--"]);
    run::run(test.arg("commands::"))
}
