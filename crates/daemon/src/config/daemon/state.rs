//! The table `[state]`.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use ratelimit_base::{
    tables::{
        options,
        problem::{Lines, Problem},
        table::{Table, Value},
    },
    text::{path, units},
};

/// The shortest and the longest time between two snapshots.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);

/// The head of the table, as files write it.
const TABLE: &str = "[state]";

/// Where the daemon keeps what outlasts a reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The time between two snapshots.
    pub interval: Duration,
}

impl StateFile {
    /// Returns whether the path leads to this file.
    pub(in crate::config) fn is(&self, file: &Path) -> bool {
        let [own, other] = [&self.path, file].map(|path| fs::canonicalize(path).ok());
        own.is_some() && own == other
    }
}

/// Returns the problem of a text whose own file is the state file.
pub(in crate::config) fn own_file(text: &str) -> Problem {
    let start = text.find(TABLE).unwrap_or_default();
    let message = "the state file is this file, which a snapshot would replace: write another path";
    Problem::at(text, &Lines::of(text), start..start + TABLE.len(), message)
}

#[derive(Debug, clap::Args)]
struct StateOptions {
    #[arg(long, value_parser = path::absolute)]
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

fn interval(text: &str) -> Result<Duration, String> {
    let interval = units::duration(text).map_err(|error| error.to_string())?;
    if INTERVALS.contains(&interval) { Ok(interval) } else { Err("expected a time from 1s to 1h".to_owned()) }
}
