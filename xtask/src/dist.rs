//! `cargo xtask dist`: builds the packages, and checks them.

mod again;
mod binary;
mod deb;
mod image;
mod libc;
mod licences;
mod materials;
mod opened;
mod packages;
mod rpm;
mod source;
mod tarball;
mod tree;

use std::fs;

use anyhow::{Context as _, Result};

use self::source::Source;
use crate::{run, setup, target};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build everything again from another folder, compare the bytes, and install, upgrade and remove the package in a
    /// clean root (as root)
    #[arg(long)]
    check: bool,
}

/// Builds all packages into `target/dist`.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check {
        run::require_root("dist --check")?;
    }
    setup::run()?;
    setup::packages()?;
    let source = Source::of_this_checkout()?;
    let packages = packages::build(&source, &target::folder("dist")?)?;
    for package in &packages {
        let size = fs::metadata(package).context("a package is missing")?.len();
        println!("dist: {}: {:.1} MB", package.display(), size as f64 / 1e6);
    }
    if args.check { again::check(&source, &packages) } else { Ok(()) }
}
