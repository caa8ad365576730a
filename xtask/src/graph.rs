//! `cargo xtask structure`: prints the imports between rooms, and every broken rule of the structure.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use xtask::structure;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Root of the workspace to check [default: this one]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let this = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let report = structure::check(args.root.as_deref().unwrap_or(&this))?;
    print!("{report}");
    ensure!(report.findings.is_empty(), "{} rules of the structure are broken", report.findings.len());
    Ok(())
}
