//! `cargo xtask lint`: format, lints of both sides, documentation.

use anyhow::{Context as _, Result, ensure};
use ratelimit_build::Toolchain;

use crate::run;

/// The packages that run in the kernel, linted once more for their own target.
const KERNEL_PACKAGES: [&str; 2] = ["ratelimit-ebpf", "ratelimit-tests-ebpf"];

pub(crate) fn run() -> Result<()> {
    run::run(run::cargo().args(["fmt", "--all", "--check"]))?;
    run::run(run::cargo().args(["clippy", "--locked", "--workspace", "--all-targets", "--", "--deny", "warnings"]))?;
    let toolchain = Toolchain::find().context("no compiler for the kernel side: run `cargo xtask setup`")?;
    ensure!(toolchain.has_clippy(), "{toolchain} comes without clippy: run `cargo xtask setup`");
    for package in KERNEL_PACKAGES {
        let mut clippy = toolchain.cargo("clippy", package);
        // The packaged clippy takes its arguments from here; they are separated by its own marker.
        clippy
            .env("CLIPPY_ARGS", "--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
            .args(["--target-dir", "target/kernel"]);
        run::run(&mut clippy)?;
    }
    let mut doc = run::cargo();
    doc.args(["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"]);
    run::run(doc.env("RUSTDOCFLAGS", "--deny warnings"))
}
