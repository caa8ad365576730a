//! Where usage is kept, how long, and how much of it.

use std::path::PathBuf;

use ratelimit_base::text::path;
use ratelimit_fleet::kept::usage::Bounds;

/// What the key `usage` says for the engine of the fleet.
const FLEET: &str = "fleet";

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

/// How long usage is kept in the engine of the fleet, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedUsage {
    /// Days after which an hour is deleted.
    pub days: u16,
    /// The most rows: one for each client, rule and hour. One hour takes at most a tenth of them.
    pub rows: u32,
}

impl SharedUsage {
    pub(super) fn bounds(self) -> Bounds {
        let rows = u64::from(self.rows);
        Bounds { hours: u64::from(self.days) * 24, rows, rows_of_hour: rows / 10 }
    }
}

/// Where usage is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsagePlace {
    /// In a file.
    File(UsageFile),
    /// In the engine of the fleet.
    Fleet(SharedUsage),
}

impl UsagePlace {
    /// Returns the keys of `[serve]` that differ in another file.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let of = |settings: &Self| match settings {
            Self::File(UsageFile { path, days, rows }) => (Some(path.clone()), *days, *rows),
            Self::Fleet(SharedUsage { days, rows }) => (None, *days, *rows),
        };
        let ((path, days, rows), (other_path, other_days, other_rows)) = (of(self), of(other));
        let all =
            [("usage", path != other_path), ("usage-days", days != other_days), ("usage-rows", rows != other_rows)];
        all.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }
}

/// The same as keys of a table.
#[derive(Debug, clap::Args)]
pub struct UsageOptions {
    #[arg(long, value_parser = place)]
    usage: Option<Place>,
    #[arg(long, default_value = "30", requires = "usage", value_parser = clap::value_parser!(u16).range(1..=3_650))]
    usage_days: u16,
    #[arg(long, default_value = "1000000", requires = "usage", value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    usage_rows: u32,
}

impl UsageOptions {
    /// Returns the settings. None if no usage is kept.
    #[must_use]
    pub fn place(self) -> Option<UsagePlace> {
        let (days, rows) = (self.usage_days, self.usage_rows);
        Some(match self.usage? {
            Place::File(path) => UsagePlace::File(UsageFile { path, days, rows }),
            Place::Fleet => UsagePlace::Fleet(SharedUsage { days, rows }),
        })
    }
}

/// What the key `usage` says.
#[derive(Debug, Clone)]
enum Place {
    File(PathBuf),
    Fleet,
}

fn place(text: &str) -> Result<Place, String> {
    match text {
        FLEET => Ok(Place::Fleet),
        path => path::absolute(path).map(Place::File).map_err(|problem| format!("{problem}, or fleet")),
    }
}

/// Bytes of the file for each row. Most rows take less: see `docs/requests.md`.
const BYTES: u64 = 512;

impl UsageFile {
    /// Returns the bytes from which on the oldest hours are deleted. New rows of two hours may come before that.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.rows) * BYTES / 10 * 8
    }

    /// Returns the most bytes of new rows of one hour, twice: once in their table, and once in its index.
    pub(super) fn bytes_of_hour(&self) -> u64 {
        self.bytes() / 10
    }

    /// Returns the first hour that is still kept.
    pub(super) fn first_hour(&self, now: u64) -> u64 {
        (now / 3_600).saturating_sub(u64::from(self.days) * 24)
    }

    /// Returns the most rows of one hour.
    pub(super) fn most_of_hour(&self) -> u64 {
        u64::from(self.rows / 10).max(1)
    }
}
