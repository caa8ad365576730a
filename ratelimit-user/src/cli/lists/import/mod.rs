//! Reads sets of addresses from other packet filters.

mod ipset;
mod nft;
mod program;

use anyhow::Result;

pub(super) use self::program::Entries;

/// A packet filter that has sets of addresses.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Filter {
    /// A named set of nftables
    Nft,
    /// A set of ipset
    Ipset,
}

/// Reads a set. `table` is the family and the name of its table in nftables.
pub(super) fn read(filter: Filter, set: &str, table: Option<&str>) -> Result<Entries> {
    match filter {
        Filter::Nft => nft::read(set, table),
        Filter::Ipset => ipset::read(set),
    }
}
