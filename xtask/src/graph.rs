//! `cargo xtask structure`: finds circles of imports.

use anyhow::{Result, ensure};
use xtask::structure;

use crate::target;

pub(crate) fn run() -> Result<()> {
    let (findings, imports) = structure::check(&target::workspace())?;
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    ensure!(findings.is_empty(), "{} circles of imports", findings.len());
    println!("structure: {imports} imports between modules, no circle");
    Ok(())
}
