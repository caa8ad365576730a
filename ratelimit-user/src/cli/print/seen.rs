//! When a source was first and last seen, as JSON and as text.

use std::time::Duration;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use ratelimit_base::text::units;
use ratelimit_common::buckets::bucket::Bucket;
use serde::Serialize;

/// The steps in which the program notes the first and the last time, and what ages below them are called.
const NEW: [(Duration, &str); 2] = [(Duration::from_secs(70), "<70s ago"), (Duration::from_secs(5), "now")];

/// The times of a source. One is None if its bucket is of a version that did not note it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Seen {
    pub(crate) first_seen_at: Option<Timestamp>,
    pub(crate) last_seen_at: Option<Timestamp>,
    #[serde(skip)]
    ages: [Option<Duration>; 2],
}

impl Seen {
    /// Reads the times of a bucket. `now` is the kernel's monotonic clock, and `at` the same moment.
    pub(crate) fn of(bucket: &Bucket, now: u64, at: Timestamp) -> Result<Self> {
        let ages = [bucket.since_first(now), bucket.since_last(now)].map(|age| age.map(Duration::from_nanos));
        let time = |age: Option<Duration>| -> Result<Option<Timestamp>> {
            let Some(age) = age else { return Ok(None) };
            let time = at.checked_sub(SignedDuration::try_from(age)?)?;
            Ok(Some(Timestamp::from_second(time.as_second())?))
        };
        Ok(Self { first_seen_at: time(ages[0])?, last_seen_at: time(ages[1])?, ages })
    }

    /// Returns both as ages: `2h5m ago`, `<70s ago`, `now`, or nothing.
    pub(crate) fn texts(&self) -> [String; 2] {
        std::array::from_fn(|which| match self.ages[which] {
            None => String::new(),
            Some(age) if age < NEW[which].0 => NEW[which].1.to_owned(),
            Some(age) => format!("{} ago", units::write_duration(whole_minutes(age, which == 0))),
        })
    }
}

/// Cuts the seconds of a first time off, which mean nothing.
const fn whole_minutes(age: Duration, is_first: bool) -> Duration {
    if is_first { Duration::from_secs(age.as_secs() / 60 * 60) } else { age }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_times_has_none() {
        let seen = Seen::of(&Bucket::counting([7, 7, 0]), 1 << 40, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((seen, seen.texts()), (Seen::default(), Default::default()));
    }
}
