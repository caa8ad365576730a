//! `cargo xtask fuzz`: builds everything in release mode and compares the parser of the product with another one.

use anyhow::Result;

use crate::programs::release;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of frames
    #[arg(default_value_t = 5_000_000)]
    packets: u64,
    /// Seed of the random frames; the same seed gives the same frames [default: random, and printed]
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut arguments = vec![args.packets.to_string()];
    arguments.extend(args.seed.map(|seed| seed.to_string()));
    release::run("fuzz", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}
