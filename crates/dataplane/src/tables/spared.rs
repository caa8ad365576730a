//! Reads and writes the prefixes that this host spares. Which these are belongs to `spared`.

use std::os::fd::AsFd as _;

use aya::maps::{IterableMap, MapError, lpm_trie::Key};
use ratelimit_common::{
    identity::{
        class::ANY,
        source::{PrefixKey, Source},
    },
    maps::control::FEATURE_SPARE,
};

use crate::{
    Error,
    error::Tried as _,
    sys::bpf,
    tables::{open::Tables, prefix_key::prefix_key},
};

/// Returns whether the program spares a source.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn has(tables: &Tables, source: &Source) -> Result<bool, Error> {
    if tables.control()?.features & FEATURE_SPARE == 0 {
        return Ok(false);
    }
    let (bits, data) = source.of_class(ANY).prefix_key(source.prefix);
    match tables.spared.open()?.get(&Key::new(bits, data), 0) {
        Ok(_) => Ok(true),
        Err(MapError::KeyNotFound) => Ok(false),
        Err(error) => Err(error).tried("cannot read a spared prefix"),
    }
}

/// Returns all entries: prefixes with the numbers of their reasons.
pub fn all(tables: &Tables) -> Result<Vec<(Source, u64)>, Error> {
    let map = IterableMap::map(tables.spared.open()?);
    let entries = bpf::trie_entries::<Key<PrefixKey>, u64>(map.fd().as_fd())?;
    Ok(entries.into_iter().map(|(key, why)| (key.data().source(key.prefix_len()), why)).collect())
}

/// Writes entries.
pub fn set(tables: &Tables, entries: &[(Source, u64)]) -> Result<(), Error> {
    let (keys, values): (Vec<_>, Vec<u64>) = entries.iter().map(|(source, why)| (prefix_key(source), *why)).unzip();
    let map = IterableMap::map(tables.spared.open()?);
    bpf::update(map.fd().as_fd(), &keys, &values).tried("cannot write a spared prefix")
}

/// Removes entries that are there.
pub fn remove(tables: &Tables, entries: &[Source]) -> Result<(), Error> {
    let keys: Vec<_> = entries.iter().map(prefix_key).collect();
    let map = IterableMap::map(tables.spared.open()?);
    bpf::delete(map.fd().as_fd(), &keys).tried("cannot delete a spared prefix")
}
