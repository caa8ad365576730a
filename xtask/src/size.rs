//! `cargo xtask size`: builds the kernel side and prints the size of each object.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use ratelimit_build::Toolchain;

use crate::{run, target};

/// The packages that run in the kernel.
pub(crate) const KERNEL_PACKAGES: [&str; 2] = ["ratelimit-ebpf", "ratelimit-tests-ebpf"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build the objects again in a clone, and compare their bytes (some minutes)
    #[arg(long)]
    again: bool,
}

/// Prints one line per package, and compares the objects with those of a clone if that is requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    print()?;
    if args.again { compare() } else { Ok(()) }
}

/// Prints one line per package.
pub(crate) fn print() -> Result<()> {
    // Build scripts use the same folder, so that nothing is built twice.
    let target_dir = target::folder("kernel")?;
    for package in KERNEL_PACKAGES {
        let object = ratelimit_build::compile(package, &target_dir)?;
        println!("size: {package}: {} instructions", object.instructions);
    }
    Ok(())
}

/// Builds the objects in a clone of the last commit, in another folder. They must have the same bytes.
fn compare() -> Result<()> {
    let workspace = target::workspace();
    let changes = run::output(Command::new("git").arg("-C").arg(&workspace).args(["status", "--porcelain"]))?;
    ensure!(changes.is_empty(), "commit your changes first: the clone has only what is committed");
    let clone = target::folder("again")?.join("clone");
    if clone.exists() {
        fs::remove_dir_all(&clone).context("cannot remove the clone of an earlier run")?;
    }
    run::run(Command::new("git").args(["clone", "--quiet"]).arg(&workspace).arg(&clone))?;
    let mut cargo = run::cargo();
    cargo.args(["run", "--locked", "--quiet", "--package", "xtask", "--", "size"]).current_dir(&clone);
    run::run(cargo.env("CARGO_TARGET_DIR", clone.join("target")))?;
    let objects = [target::folder("kernel")?, clone.join("target/kernel")].map(|folder| Toolchain::artifacts(&folder));
    for package in KERNEL_PACKAGES {
        let read = |folder: &Path| fs::read(folder.join(package)).with_context(|| format!("no object {package}"));
        let [here, there] = [read(&objects[0])?, read(&objects[1])?];
        ensure!(here == there, "{package}: the same sources in another folder give another object");
        println!("size: {package}: {} bytes, the same in another folder", here.len());
    }
    fs::remove_dir_all(&clone).context("cannot remove the clone")
}
