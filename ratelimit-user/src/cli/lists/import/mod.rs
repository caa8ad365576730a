//! Reads sets of addresses from other packet filters.

mod ipset;
mod nft;

use std::{
    io::{self, ErrorKind},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

/// A packet filter that has sets of addresses.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Filter {
    /// A named set of nftables
    Nft,
    /// A set of ipset
    Ipset,
}

/// The entries of a set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entries {
    /// One per line, as feeds have them.
    pub(super) text: String,
    /// The number of entries that end there by themselves.
    pub(super) timed: usize,
}

/// Reads a set. `table` is the family and the name of its table in nftables.
pub(super) fn read(filter: Filter, set: &str, table: Option<&str>) -> Result<Entries> {
    match filter {
        Filter::Nft => nft::read(set, table),
        Filter::Ipset => ipset::read(set),
    }
}

/// Returns the output of a program, which is in a package of this name.
fn output(program: &str, arguments: &[&str], package: &str) -> Result<Vec<u8>> {
    let output = Command::new(program).args(arguments).output();
    let missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    if output.as_ref().is_err_and(missing) {
        bail!("there is no program {program}: install {package}");
    }
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{program}: {}", text.lines().next().unwrap_or("it failed without a message"));
    }
    Ok(output.stdout)
}
