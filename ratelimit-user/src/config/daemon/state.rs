//! The table `[state]`.

use std::{path::PathBuf, time::Duration};

use crate::config::{
    options,
    table::{Table, Value},
};
use crate::text::units;

/// The shortest and the longest time between two snapshots.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);

/// Where the daemon keeps what outlasts a reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The time between two snapshots.
    pub interval: Duration,
}

#[derive(Debug, clap::Args)]
struct StateOptions {
    #[arg(long, value_parser = absolute)]
    file: PathBuf,
    #[arg(long, default_value = "60s", value_parser = interval)]
    interval: Duration,
}

/// Reads the table. The file is read later.
pub(in crate::config) fn read(top: &Table<'_>) -> Option<StateFile> {
    let table = top.get("state").and_then(Value::table)?;
    let options = options::read::<StateOptions>(&table, &[])?;
    Some(StateFile { path: options.file, interval: options.interval })
}

fn absolute(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    let is_file = path.is_absolute() && path.file_name().is_some() && !text.ends_with('/');
    if is_file { Ok(path) } else { Err("expected the absolute path of a file") }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = units::duration(text).map_err(|error| error.to_string())?;
    if INTERVALS.contains(&interval) { Ok(interval) } else { Err("expected a time from 1s to 1h".to_owned()) }
}
