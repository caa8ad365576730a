//! The most packets that each source sends within a second, a minute and an hour.

use std::{collections::HashMap, time::Duration};

use ratelimit_common::identity::source::Source;

use super::rates::per;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// The busiest times of one source, in packets. A source can have several, for services.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// Packets per second between two readings.
    pub second: u64,
    /// Packets within a minute, or within the whole time if that is shorter.
    pub minute: u64,
    /// Packets within an hour, or within the whole time if that is shorter.
    pub hour: u64,
}

/// What readings of growing counters say about each source.
#[derive(Debug, Default)]
pub struct Peaks {
    sources: HashMap<Source, Seen>,
    /// The time of the last reading, since the first.
    last: Option<Duration>,
    minute_begin: Duration,
    hour_begin: Duration,
}

/// One source at the last reading.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    counter: u64,
    in_minute: u64,
    in_hour: u64,
    peak: Peak,
}

impl Seen {
    fn end_minute(&mut self) {
        self.peak.minute = self.peak.minute.max(std::mem::take(&mut self.in_minute));
    }

    fn end_hour(&mut self) {
        self.peak.hour = self.peak.hour.max(std::mem::take(&mut self.in_hour));
    }
}

impl Peaks {
    /// Adds a reading of all sources, `now` after the first one. `read` calls its argument with each source and its
    /// counter.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn add<E>(
        &mut self,
        now: Duration,
        read: impl FnOnce(&mut dyn FnMut(Source, u64)) -> Result<(), E>,
    ) -> Result<(), E> {
        let time = self.last.map(|last| now.saturating_sub(last));
        let sources = &mut self.sources;
        read(&mut |source, counter| {
            let seen = sources.entry(source).or_default();
            // A bucket that was deleted and created again counts from zero.
            let grown = counter.checked_sub(seen.counter).unwrap_or(counter);
            seen.counter = counter;
            // What was counted before the first reading has no time.
            if let Some(time) = time {
                seen.peak.second = seen.peak.second.max(per(grown, time));
                seen.in_minute += grown;
                seen.in_hour += grown;
            }
        })?;
        self.last = Some(now);
        if now.saturating_sub(self.minute_begin) >= MINUTE {
            self.minute_begin = now;
            self.sources.values_mut().for_each(Seen::end_minute);
        }
        if now.saturating_sub(self.hour_begin) >= HOUR {
            self.hour_begin = now;
            self.sources.values_mut().for_each(Seen::end_hour);
        }
        Ok(())
    }

    /// Returns the sources that sent packets between the first and the last reading.
    #[must_use]
    pub fn finish(mut self) -> Vec<(Source, Peak)> {
        self.sources.values_mut().for_each(|seen| {
            seen.end_minute();
            seen.end_hour();
        });
        let peaks = self.sources.into_iter().map(|(source, seen)| (source, seen.peak));
        peaks.filter(|(_, peak)| peak.hour != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const A: Source = Source::v4([192, 0, 2, 1]);
    const B: Source = Source::v4([192, 0, 2, 2]);

    /// Returns the peaks after these readings, in milliseconds since the first.
    fn after(readings: &[(u64, &[(Source, u64)])]) -> HashMap<Source, Peak> {
        let mut peaks = Peaks::default();
        for (milliseconds, counters) in readings {
            let read = |each: &mut dyn FnMut(Source, u64)| -> Result<(), Infallible> {
                counters.iter().for_each(|(source, counter)| each(*source, *counter));
                Ok(())
            };
            peaks.add(Duration::from_millis(*milliseconds), read).unwrap_or_else(|never| match never {});
        }
        peaks.finish().into_iter().collect()
    }

    #[test]
    fn the_busiest_second_counts_and_earlier_packets_do_not() {
        let peaks = after(&[
            (0, &[(A, 1_000), (B, 70)]),
            (1_000, &[(A, 1_010), (B, 70)]),
            (3_000, &[(A, 1_100), (B, 70)]),
            (4_000, &[(A, 1_101), (B, 70)]),
        ]);
        assert_eq!(peaks, HashMap::from([(A, Peak { second: 45, minute: 101, hour: 101 })]));
    }

    #[test]
    fn a_source_that_appears_or_gets_a_new_bucket_counts_from_zero() {
        let peaks = after(&[(0, &[(A, 500)]), (1_000, &[(A, 20), (B, 5)]), (2_000, &[(A, 20), (B, 8)])]);
        let expected = [(A, Peak { second: 20, minute: 20, hour: 20 }), (B, Peak { second: 5, minute: 8, hour: 8 })];
        assert_eq!(peaks, HashMap::from(expected));
    }

    #[test]
    fn the_busiest_minute_and_hour_are_found() {
        let minute = |number: u64, counter: u64| (number * 60_000, [(A, counter)]);
        // 10 in the first minute, 300 in the second, then one per minute.
        let mut readings = vec![minute(0, 0), minute(1, 10), minute(2, 310)];
        readings.extend((3..=130).map(|number| minute(number, 308 + number)));
        let readings: Vec<_> = readings.iter().map(|(at, counters)| (*at, counters.as_slice())).collect();
        let peak = after(&readings)[&A];
        assert_eq!((peak.second, peak.minute, peak.hour), (5, 300, 368));
    }
}
