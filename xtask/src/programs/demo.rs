//! `cargo xtask demo`: builds the product and the demo, without optimization of the whole program, and runs the demo.

use std::{os::unix::process::CommandExt as _, process::Command};

use anyhow::Result;

use crate::{run, setup, target};

/// What cargo builds: the command without what the demo does not show, and the demo.
const BUILD: &[&str] = &[
    "--no-default-features",
    "--package",
    "ratelimit-user",
    "--bin",
    "ratelimit",
    "--package",
    "ratelimit-demo",
    "--bin",
    "demo",
];

/// What happens, before it does.
const INTRODUCTION: &str = "\
The demo floods a web server in network namespaces of its own, and shows what limits change. On two cores, the first
run takes three minutes, most of them for step 2, and later ones 30 seconds:
  1. install what is missing of LLVM 22, a Rust compiler for BPF, and iproute2, from Debian's packages
  2. compile the program for the kernel, the command `ratelimit`, and the demo, below target/
  3. run the demo, for 27 seconds; it touches no interface of this machine
";

const STEPS: usize = 3;

/// Builds the product and the demo, and replaces this process with the demo.
///
/// # Errors
///
/// Fails if a tool cannot be installed, the build fails, or the demo cannot be started.
pub(crate) fn run() -> Result<()> {
    run::require_root("demo")?;
    println!("{INTRODUCTION}");
    step(1, "looking for build tools");
    setup::for_builds()?;
    step(2, "compiling");
    run::run(run::cargo().args(["build", "--locked"]).args(BUILD))?;
    step(3, "running the demo");
    // The demo replaces this process, so that it handles Ctrl-C itself.
    let error = Command::new(target::folder("debug")?.join("demo")).exec();
    Err(anyhow::Error::new(error).context("cannot start the demo"))
}

fn step(number: usize, what: &str) {
    println!("[{number}/{STEPS}] {what}");
}
