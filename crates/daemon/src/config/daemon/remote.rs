//! The keys of `[[list]]` about a list on a server.

use std::{
    fmt,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use ratelimit_base::{
    fetch::Address,
    files::{
        named::{self as file, Readers},
        secret,
    },
    tables::{options, switch::Switch, table::Table},
    text::{path, units},
};
use ratelimit_common::maps::names::LIST_ADDRESSES_MOST;
use serde::Serialize;

use super::kept::Kept;

/// The folder of the copies.
const COPIES: &str = "/var/lib/ratelimit/lists";

/// The shortest and the longest time between two requests. Most publishers of feeds refuse more than one in some minutes.
const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(7 * 86_400);

/// The possible bounds of the size of a list in MB, and the usual one.
const SIZES: RangeInclusive<u64> = 1..=256;
const SIZE: u64 = 16;

/// The possible bounds of the number of entries, and the usual one. An instance has space for so many in all lists.
const ENTRIES: RangeInclusive<i64> = 1..=LIST_ADDRESSES_MOST as i64;
const USUAL_ENTRIES: u32 = 200_000;

/// The bytes of a MB.
const MB: u64 = 1_000_000;

/// The most bytes of a file with authorities.
const MOST: usize = 1 << 20;

/// The length of a token.
const TOKEN: RangeInclusive<usize> = 1..=4_096;

/// A list on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Where it is.
    pub address: Address,
    /// The time between two requests.
    pub every: Duration,
    /// The largest size in bytes.
    pub most: u64,
    /// The most entries.
    pub entries: usize,
    /// The authorities of its server as PEM. None are those of the system.
    pub authorities: Option<Vec<u8>>,
    /// What a request shows.
    pub token: Option<Token>,
}

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[derive(Debug, clap::Args)]
struct RemoteOptions {
    #[arg(long)]
    url: Option<Address>,
    #[arg(long, value_parser = interval)]
    every: Option<Duration>,
    #[arg(long, value_parser = size)]
    max_size: Option<u64>,
    #[arg(long, value_parser = clap::value_parser!(u32).range(ENTRIES))]
    max_entries: Option<u32>,
    #[arg(long)]
    ca_file: Option<PathBuf>,
    #[arg(long)]
    token_file: Option<PathBuf>,
    #[arg(long, value_enum)]
    allow_http: Option<Switch>,
    #[arg(long, value_parser = path::absolute)]
    copy: Option<PathBuf>,
    // For lists of files too.
    #[arg(long, value_enum, default_value = "off")]
    may_shrink: Switch,
}

/// The keys of a list on a server, as far as the copy tells.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::config) struct Saved {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_http: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<PathBuf>,
}

impl Saved {
    /// Returns the keys of the list with this name and copy. None if the file is no copy.
    pub(in crate::config) fn of(copy: &Path, name: &str) -> Option<Self> {
        let url = Kept::read(copy)?.url;
        let address: Address = url.parse().ok()?;
        let allow_http = address.is_open().then_some(true);
        Some(Self { url, allow_http, copy: (copy != usual_copy(name)).then(|| copy.to_owned()) })
    }
}

fn usual_copy(name: &str) -> PathBuf {
    Path::new(COPIES).join(name)
}

/// Returns whether the list of a file may lose more than half of its entries. Its table has the keys `others` alone.
/// Otherwise adds a problem, and returns None.
pub(in crate::config) fn none(table: &Table<'_>, others: &[&str]) -> Option<bool> {
    let options = options::read::<RemoteOptions>(table, others)?;
    let of_url = ["every", "max-size", "max-entries", "ca-file", "token-file", "allow-http", "copy"];
    let Some((key, value)) = of_url.iter().find_map(|key| Some((key, table.get(key)?))) else {
        return Some(options.may_shrink == Switch::On);
    };
    value.wrong(format!("{key} is for a list with url: write url in place of file, or remove this key"));
    None
}

/// Reads the keys of a list on a server, the path of its copy, and whether the list may lose more than half of its
/// entries, from a table that also has the keys `others`. None if there is a problem, which is added.
pub(in crate::config) fn read(table: &Table<'_>, others: &[&str], name: &str) -> Option<(Remote, PathBuf, bool)> {
    let options = options::read::<RemoteOptions>(table, others)?;
    let wrong = |key: &str, message: String| {
        if let Some(value) = table.get(key) {
            value.wrong(message);
        }
    };
    let address = options.url.clone()?;
    #[cfg(not(feature = "lists"))]
    {
        wrong("url", super::absent("lists"));
        None
    }
    #[cfg(feature = "lists")]
    fetched(options, address, name, &wrong)
}

/// Checks the keys of a list that is fetched from this address. `wrong` adds a problem of a key.
#[cfg(feature = "lists")]
fn fetched(
    options: RemoteOptions,
    address: Address,
    name: &str,
    wrong: &dyn Fn(&str, String),
) -> Option<(Remote, PathBuf, bool)> {
    let is_open = address.is_open();
    if is_open && options.allow_http != Some(Switch::On) {
        wrong("url", "anybody on the way could change the list: use https://, or add allow-http = true".to_owned());
        return None;
    }
    if is_open && options.token_file.is_some() {
        wrong("token-file", "others could read the token: use https:// in url".to_owned());
        return None;
    }
    let authorities = options.ca_file.map(|path| authorities(&path, &address)).transpose();
    let authorities = authorities.map_err(|problem| wrong("ca-file", problem)).ok()?;
    let token = options.token_file.map(|path| secret::read(&path, TOKEN).map(Token)).transpose();
    let token = token.map_err(|problem| wrong("token-file", problem)).ok()?;
    let most = options.max_size.unwrap_or(SIZE * MB);
    let every = options.every.unwrap_or(Duration::from_secs(3_600));
    let copy = options.copy.unwrap_or_else(|| usual_copy(name));
    let entries = options.max_entries.unwrap_or(USUAL_ENTRIES) as usize;
    let may_shrink = options.may_shrink == Switch::On;
    Some((Remote { address, every, most, entries, authorities, token }, copy, may_shrink))
}

/// Reads the authorities of a server.
#[cfg(feature = "lists")]
fn authorities(path: &Path, address: &Address) -> Result<Vec<u8>, String> {
    if !address.is_encrypted() {
        return Err("the connection is not encrypted: write https:// in url, or remove this key".to_owned());
    }
    let pem = file::read(path, MOST, Readers::All)?;
    ratelimit_base::fetch::Trust::of_pem(&pem).map(|_| pem).map_err(|problem| problem.to_string())
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = units::duration(text).map_err(|error| error.to_string())?;
    if INTERVALS.contains(&interval) { Ok(interval) } else { Err("expected a time from 1m to 7d".to_owned()) }
}

fn size(text: &str) -> Result<u64, String> {
    let size = text.strip_suffix("MB").and_then(|number| number.parse().ok()).filter(|size| SIZES.contains(size));
    size.map(|size: u64| size * MB).ok_or_else(|| "expected a size from 1MB to 256MB".to_owned())
}
