//! `cargo xtask fuzz`: builds the product in release mode and compares the parser of the product with another one, or has
//! the server for requests read hostile input.

use std::hash::{BuildHasher as _, RandomState};

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
    /// Have the server for requests read hostile input instead: calls, messages, rules and clients
    #[arg(long, conflicts_with = "packets")]
    check: bool,
    /// Minutes for each kind of hostile input
    #[arg(long, requires = "check", default_value_t = 10)]
    minutes: u64,
    /// Only this kind: check, batch, rule, call, http1, grpc, http2, file or keys
    #[arg(long, requires = "check")]
    only: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    let mut arguments = if args.check {
        vec!["--check".to_owned(), args.minutes.saturating_mul(60).to_string(), seed.to_string()]
    } else {
        vec![args.packets.to_string(), seed.to_string()]
    };
    arguments.extend(args.only.clone());
    release::run("fuzz", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}
