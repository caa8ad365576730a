//! Where usage is kept, how long, and how much of it.

use std::path::PathBuf;

use crate::text::path;

/// Where usage is kept, how long, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageFile {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// Days after which an hour is deleted.
    pub days: u16,
    /// The most rows: one for each client, rule and hour. One hour takes at most a tenth of them.
    pub rows: u32,
}

/// The same as keys of a table.
#[derive(Debug, clap::Args)]
pub struct UsageOptions {
    #[arg(long, value_parser = path::absolute)]
    usage: Option<PathBuf>,
    #[arg(long, default_value = "30", requires = "usage", value_parser = clap::value_parser!(u16).range(1..=3_650))]
    usage_days: u16,
    #[arg(long, default_value = "1000000", requires = "usage", value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    usage_rows: u32,
}

impl UsageOptions {
    /// Returns the settings. None if no usage is kept.
    #[must_use]
    pub fn file(self) -> Option<UsageFile> {
        Some(UsageFile { path: self.usage?, days: self.usage_days, rows: self.usage_rows })
    }
}

impl UsageFile {
    /// Returns the first hour that is still kept.
    pub(super) fn first_hour(&self, now: u64) -> u64 {
        (now / 3_600).saturating_sub(u64::from(self.days) * 24)
    }

    /// Returns the most rows of one hour.
    pub(super) fn most_of_hour(&self) -> u64 {
        u64::from(self.rows / 10).max(1)
    }
}
