//! `cargo xtask attacks`: builds everything in release mode and plays the attacks of the tests.

use anyhow::Result;

use crate::release;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the table of docs/floods.md
    #[arg(long)]
    record: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let arguments: &[String] = if args.record { &["--record".to_owned()] } else { &[] };
    release::run("attacks", arguments)
}
