//! `cargo xtask bench`: builds everything in release mode and measures.

use anyhow::Result;

use crate::run;

pub(crate) fn run() -> Result<()> {
    run::release_program("bench")
}
