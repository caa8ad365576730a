//! `cargo xtask bench`: builds everything in release mode and measures, beside other limiters.

use anyhow::Result;

use crate::{run, setup};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Less than a minute, for figures that are only roughly right
    #[arg(long)]
    quick: bool,
    /// The algorithms beside each other alone, in three minutes
    #[arg(long)]
    algorithms: bool,
    /// Write docs/measurements.md and its plots
    #[arg(long)]
    record: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run::require_root("bench")?;
    if let Err(error) = setup::limiters() {
        println!("setup: other limiters are left out: {}", format!("{error:#}").replace('\n', "; "));
    }
    let arguments = [(args.quick, "--quick"), (args.algorithms, "--algorithms"), (args.record, "--record")];
    let arguments: Vec<_> = arguments.iter().filter(|(is_on, _)| *is_on).map(|(_, name)| (*name).to_owned()).collect();
    run::release_program_with("bench", &arguments)
}
