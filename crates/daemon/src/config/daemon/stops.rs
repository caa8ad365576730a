//! The table `[stops]`: where applications ask to stop clients at the network card.

use std::path::PathBuf;

use clap::ValueEnum;
use ratelimit_base::{
    tables::{
        options,
        table::{Table, Value},
    },
    text::{path, prefix::Prefix},
};

/// The most prefixes of proxies.
const MOST_PROXIES: usize = 1_024;

/// How the daemon answers applications that ask to stop clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stops {
    /// The absolute path of the socket.
    pub socket: PathBuf,
    /// The group that may ask, by name or number. None is root alone.
    pub group: Option<String>,
    /// What a request does.
    pub mode: Mode,
    /// Addresses that many clients share. No request limits them.
    pub trusted_proxies: Vec<Prefix>,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Mode {
    /// The daemon only logs and counts what it would limit.
    #[default]
    Shadow,
    /// The daemon limits clients.
    On,
}

impl Mode {
    /// Returns the name in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shadow => "shadow",
            Self::On => "on",
        }
    }
}

#[derive(Debug, clap::Args)]
struct StopsOptions {
    #[arg(long, value_parser = path::absolute)]
    socket: PathBuf,
    #[arg(long)]
    group: Option<String>,
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    #[arg(long)]
    trusted_proxies: Vec<Prefix>,
}

/// Reads the table.
pub(in crate::config) fn read(top: &Table<'_>) -> Option<Stops> {
    let table = top.get("stops").and_then(Value::table)?;
    let StopsOptions { socket, group, mode, trusted_proxies } = options::read(&table, &[])?;
    if trusted_proxies.len() > MOST_PROXIES
        && let Some(value) = table.get("trusted-proxies")
    {
        value.wrong(format!("more than {MOST_PROXIES} prefixes: write wider ones"));
    }
    Some(Stops { socket, group, mode: mode.unwrap_or_default(), trusted_proxies })
}
