//! `cargo xtask fuzz`: builds everything in release mode and compares the product with another parser.

use anyhow::Result;

use crate::run;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many frames
    #[arg(default_value_t = 5_000_000)]
    packets: u64,
    /// What the frames are made from; the same seed gives the same frames [default: a random one, which is printed]
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut arguments = vec![args.packets.to_string()];
    arguments.extend(args.seed.map(|seed| seed.to_string()));
    run::release_program_with("fuzz", &arguments)
}
