//! `cargo xtask demo`: builds everything in release mode and shows the main job on real traffic.

use anyhow::Result;

use crate::{run, setup};

pub(crate) fn run() -> Result<()> {
    run::require_root("demo")?;
    setup::run()?;
    run::run(run::cargo().args(["build", "--release", "--package", "ratelimit-user", "--package", "ratelimit-tests"]))?;
    // The demo cleans up on Ctrl-C itself, so it takes this process's place instead of being its child.
    use std::os::unix::process::CommandExt as _;
    let mut demo = run::cargo();
    demo.args(["run", "--quiet", "--release", "--package", "ratelimit-tests", "--bin", "demo"]);
    Err(anyhow::Error::new(demo.exec()).context("cannot start the demo"))
}
