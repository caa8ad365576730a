//! `cargo xtask test`: builds everything and runs all tests.

use anyhow::Result;

use crate::{run, setup};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only tests whose name contains this; further words go to the test programs
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    filter: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run::require_root("test")?;
    setup::run()?;
    // The tests run the product's binary, which `cargo test` alone would not build.
    run::run(run::cargo().args(["build", "--locked", "--package", "ratelimit-user"]))?;
    run::run(run::cargo().args(["test", "--locked", "--workspace", "--"]).args(&args.filter))
}
