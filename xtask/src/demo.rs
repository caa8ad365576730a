//! `cargo xtask demo`: builds everything in release mode and shows the main job on real traffic.

use anyhow::Result;

use crate::run;

pub(crate) fn run() -> Result<()> {
    run::release_program("demo")
}
