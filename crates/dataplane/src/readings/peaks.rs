//! The most packets that each source sends within a second, a minute and an hour.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use ratelimit_common::{identity::source::Source, maps::control::SAMPLE_RATE};

use super::rates::per;

const SECOND: Duration = Duration::from_secs(1);
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

/// The counters of a source at one reading.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Packets that passed.
    pub passed: u64,
    /// Packets over the limit. This count restarts when packets begin or cease to pass in shadow.
    pub refused: u64,
}

/// What readings of growing counters say about each source.
#[derive(Debug)]
pub struct Peaks {
    sources: HashMap<Source, Seen>,
    /// The most sources to keep.
    most: usize,
    /// The time of the last reading, since the first.
    last: Option<Duration>,
    minute_begin: Duration,
    hour_begin: Duration,
    left_out: u64,
}

/// What was observed.
#[derive(Debug, Default)]
pub struct Observed {
    /// The sources that sent packets between the first and the last reading.
    pub sources: Vec<(Source, Peak)>,
    /// Readings of sources that were left out because there were too many sources.
    pub left_out: u64,
}

/// One source at the last reading.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    counters: Counters,
    in_minute: u64,
    in_hour: u64,
    peak: Peak,
}

impl Peak {
    /// Returns whether one packet or one sample was seen.
    #[must_use]
    pub const fn is_of_one(&self) -> bool {
        matches!(self.hour, 1 | SAMPLE_RATE)
    }
}

impl Counters {
    /// Returns whether one packet or one sample was counted.
    const fn is_of_one(self) -> bool {
        matches!(self.passed + self.refused, 1 | SAMPLE_RATE)
    }

    /// Returns the packets since an earlier reading.
    fn since(self, earlier: Self) -> u64 {
        match self.passed.checked_sub(earlier.passed) {
            // A refused count that has restarted says nothing about this interval.
            Some(passed) => passed + self.refused.saturating_sub(earlier.refused),
            // A bucket that was deleted and created again counts from zero.
            None => self.passed + self.refused,
        }
    }
}

impl Seen {
    fn end_minute(&mut self) {
        self.peak.minute = self.peak.minute.max(std::mem::take(&mut self.in_minute));
    }

    fn end_hour(&mut self) {
        self.peak.hour = self.peak.hour.max(std::mem::take(&mut self.in_hour));
    }

    fn is_of_one(&self) -> bool {
        self.peak.hour == 0 && matches!(self.in_hour, 0 | 1 | SAMPLE_RATE)
    }
}

impl Peaks {
    /// Begins without a source. At most `most` sources are kept.
    #[must_use]
    pub fn of(most: usize) -> Self {
        let (minute_begin, hour_begin) = (Duration::ZERO, Duration::ZERO);
        Self { sources: HashMap::new(), most, last: None, minute_begin, hour_begin, left_out: 0 }
    }

    /// Adds a reading of all sources, `now` after the first one. `read` calls its argument with each source and its
    /// counters.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn add<E>(
        &mut self,
        now: Duration,
        read: impl FnOnce(&mut dyn FnMut(Source, Counters)) -> Result<(), E>,
    ) -> Result<(), E> {
        let time = self.last.map(|last| now.saturating_sub(last));
        self.forget_some();
        read(&mut |source, counters| self.see(source, counters, time))?;
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

    /// Makes room by forgetting sources of one packet: a flood of forged addresses consists of them.
    fn forget_some(&mut self) {
        if self.sources.len() < self.most {
            return;
        }
        let before = self.sources.len();
        self.sources.retain(|_, seen| !seen.is_of_one());
        self.left_out += (before - self.sources.len()) as u64;
    }

    fn see(&mut self, source: Source, counters: Counters, time: Option<Duration>) {
        let is_full = self.sources.len() >= self.most;
        // A source that was forgotten or left out before may have counted long ago.
        let has_left_out = self.left_out != 0;
        let seen = match self.sources.entry(source) {
            Entry::Occupied(seen) => seen.into_mut(),
            Entry::Vacant(_) if is_full => return self.left_out += 1,
            Entry::Vacant(place) if has_left_out && !counters.is_of_one() => {
                place.insert(Seen { counters, ..Seen::default() })
            }
            Entry::Vacant(place) => place.insert(Seen::default()),
        };
        let grown = counters.since(seen.counters);
        seen.counters = counters;
        // What was counted before the first reading has no time.
        if let Some(time) = time {
            // A short interval, as before Ctrl-C, is not multiplied.
            seen.peak.second = seen.peak.second.max(per(grown, time.max(SECOND)));
            seen.in_minute += grown;
            seen.in_hour += grown;
        }
    }

    /// Returns what was observed.
    #[must_use]
    pub fn finish(mut self) -> Observed {
        self.sources.values_mut().for_each(|seen| {
            seen.end_minute();
            seen.end_hour();
        });
        let peaks = self.sources.into_iter().map(|(source, seen)| (source, seen.peak));
        let sources = peaks.filter(|(_, peak)| peak.hour != 0).collect();
        Observed { sources, left_out: self.left_out }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const A: Source = Source::v4([192, 0, 2, 1]);
    const B: Source = Source::v4([192, 0, 2, 2]);

    /// Milliseconds since the first reading, and the packets of each source that passed and that were refused.
    type Reading<'a> = (u64, &'a [(Source, [u64; 2])]);

    fn observed(most: usize, readings: &[Reading<'_>]) -> Observed {
        let mut peaks = Peaks::of(most);
        for (milliseconds, counters) in readings {
            let read = |each: &mut dyn FnMut(Source, Counters)| -> Result<(), Infallible> {
                for (source, [passed, refused]) in *counters {
                    each(*source, Counters { passed: *passed, refused: *refused });
                }
                Ok(())
            };
            peaks.add(Duration::from_millis(*milliseconds), read).unwrap_or_else(|never| match never {});
        }
        peaks.finish()
    }

    /// Returns the peaks after readings of packets that passed.
    fn after(readings: &[(u64, &[(Source, u64)])]) -> HashMap<Source, Peak> {
        let with_refused = |counters: &&[(Source, u64)]| -> Vec<(Source, [u64; 2])> {
            counters.iter().map(|(source, passed)| (*source, [*passed, 0])).collect()
        };
        let readings: Vec<_> = readings.iter().map(|(at, counters)| (*at, with_refused(counters))).collect();
        let readings: Vec<_> = readings.iter().map(|(at, counters)| (*at, counters.as_slice())).collect();
        observed(100, &readings).sources.into_iter().collect()
    }

    #[test]
    fn a_refused_count_that_restarts_or_falls_adds_nothing() {
        let readings: [Reading<'_>; 3] =
            [(0, &[(A, [10, 5_000])]), (1_000, &[(A, [12, 4_900])]), (2_000, &[(A, [14, 4_903])])];
        let expected = (A, Peak { second: 5, minute: 7, hour: 7 });
        assert_eq!(observed(100, &readings).sources, [expected]);
    }

    #[test]
    fn packets_in_a_few_milliseconds_count_as_those_of_a_second() {
        let peaks = after(&[(0, &[(A, 0)]), (1_000, &[(A, 10)]), (1_005, &[(A, 30)])]);
        assert_eq!(peaks, HashMap::from([(A, Peak { second: 20, minute: 30, hour: 30 })]));
    }

    #[test]
    fn a_flood_of_sources_takes_bounded_room_and_hides_no_busy_source() {
        let forged = |number: u8| (Source::v4([198, 51, 100, number]), [1, 0]);
        let mut readings = vec![(0, vec![(A, [0, 0])])];
        for round in 1..=20u64 {
            let flood = (0..10).map(|number| forged((round * 10) as u8 + number));
            readings.push((round * 1_000, flood.chain([(A, [round * 100, 0])]).collect()));
        }
        let readings: Vec<_> = readings.iter().map(|(at, counters)| (*at, counters.as_slice())).collect();
        let observed = observed(16, &readings);
        assert!(observed.sources.len() <= 16 && observed.left_out > 100, "{observed:?}");
        let busy = observed.sources.iter().find(|(source, _)| *source == A).unwrap();
        assert_eq!(busy.1, Peak { second: 100, minute: 2_000, hour: 2_000 });
        let seen = observed.sources.iter().filter(|(_, peak)| peak.is_of_one()).count() as u64;
        assert_eq!(seen + observed.left_out, 200);
    }

    #[test]
    fn packets_from_before_a_flood_are_not_those_of_a_second() {
        let forged = |number: u8| (Source::v4([198, 51, 100, number]), [1, 0]);
        let mut readings = vec![(0, vec![(A, [1_000_000, 0])])];
        for round in 1..=20u64 {
            let flood = (0..10).map(|number| forged((round * 10) as u8 + number));
            // One source is silent, and one sends a sample at the end.
            let late = if round == 20 { 102_656 } else { 102_400 };
            readings.push((round * 1_000, flood.chain([(A, [1_000_000, 0]), (B, [late, 0])]).collect()));
        }
        let readings: Vec<_> = readings.iter().map(|(at, counters)| (*at, counters.as_slice())).collect();
        let observed = observed(8, &readings);
        let highest = observed.sources.iter().map(|(_, peak)| peak.second).max();
        assert!(observed.left_out > 100 && highest <= Some(SAMPLE_RATE), "{observed:?}");
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
