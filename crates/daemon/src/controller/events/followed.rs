//! Sources that exceed their limits: since when, and whether they still do.

use std::collections::HashMap;

use ratelimit_common::{
    buckets::bucket::Bucket,
    identity::source::Source,
    limits::limit::SECOND,
    maps::event::{Event, QUIET, SHADOWED},
    reason::Reason,
};

/// The number of sources that are followed until they are quiet. For further ones only the start is reported.
const MOST: usize = 10_000;

/// The number of quiet sources that are remembered. A cached refusal can refuse them again, which the program does not
/// report.
const MOST_QUIET: usize = 1_000;

/// All followed sources.
#[derive(Default)]
pub(super) struct Followed {
    throttled: HashMap<Source, State>,
    quiet: HashMap<Source, State>,
}

/// The state of a followed source.
struct State {
    reason: &'static str,
    shadow: bool,
    since: u64,
    /// Packets dropped since then.
    dropped: u64,
    /// Whether that number is an estimate.
    estimated: bool,
    /// All packets dropped until the last look, and all that have passed in shadow. None if the report told only one.
    counts: [Option<u64>; 2],
    /// When that number was last seen to grow.
    grown: u64,
}

/// A change of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A limit refuses its packets.
    Throttled {
        /// The name of the reason.
        reason: &'static str,
        /// Whether its packets pass in shadow mode.
        shadow: bool,
    },
    /// No packet was refused for a while.
    Ended {
        /// Packets that were dropped in this time.
        dropped: u64,
        /// Whether this number is an estimate.
        estimated: bool,
        /// The time from the first to the last drop.
        seconds: u64,
        /// Whether the packets passed in shadow mode.
        shadow: bool,
    },
}

impl Followed {
    /// Returns whether there is no source, including quiet ones.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.throttled.is_empty() && self.quiet.is_empty()
    }

    /// Returns all sources, including quiet ones.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> + '_ {
        self.throttled.keys().chain(self.quiet.keys()).copied()
    }

    /// Takes a report that a limit refuses a source. Returns None if the source is followed already.
    pub(super) fn refused(&mut self, event: &Event) -> Option<Change> {
        let Event { source, time, dropped, .. } = *event;
        let reason = Reason::ALL.get(event.reason as usize).map_or("unknown", |reason| reason.name());
        let shadow = event.kind == SHADOWED;
        if self.throttled.contains_key(&source) {
            return None;
        }
        if self.throttled.len() < MOST {
            // Drops since the last look belong to the new time of throttling.
            let told = if shadow { [None, Some(dropped)] } else { [Some(dropped), None] };
            let counts = self.quiet.remove(&source).map_or(told, |state| state.counts);
            let state = State { reason, shadow, since: time, dropped: 0, estimated: false, counts, grown: time };
            self.throttled.insert(source, state);
        }
        Some(Change::Throttled { reason, shadow })
    }

    /// Takes the counters of a source at `now`. They are None if no map has the source.
    pub(super) fn counted(&mut self, source: Source, bucket: Option<Bucket>, now: u64) -> Option<Change> {
        let is_quiet = self.quiet.contains_key(&source);
        let Some(bucket) = bucket else {
            self.quiet.remove(&source);
            return if is_quiet { None } else { self.end(source, now) };
        };
        let states = if is_quiet { &mut self.quiet } else { &mut self.throttled };
        let state = states.get_mut(&source)?;
        let [dropped, in_shadow] = [bucket.dropped(), bucket.would_drop()].map(|count| count.packets);
        let [dropped_before, in_shadow_before] = state.counts;
        let grown = |count: u64, before: Option<u64>| count.saturating_sub(before.unwrap_or(count));
        (state.counts, state.estimated) = ([Some(dropped), Some(in_shadow)], bucket.is_sampled());
        let (dropped, in_shadow) = (grown(dropped, dropped_before), grown(in_shadow, in_shadow_before));
        let (same, other) = if state.shadow { (in_shadow, dropped) } else { (dropped, in_shadow) };
        if same + other == 0 {
            return if is_quiet { None } else { self.end(source, now) };
        }
        let is_other = same == 0;
        (state.dropped, state.grown) = (state.dropped + same, now);
        if !is_quiet && !is_other {
            return None;
        }
        let mut state = states.remove(&source)?;
        (state.shadow, state.since, state.dropped) =
            (state.shadow != is_other, now, if is_other { other } else { same });
        let change = Change::Throttled { reason: state.reason, shadow: state.shadow };
        if self.throttled.len() < MOST {
            self.throttled.insert(source, state);
        }
        Some(change)
    }

    /// Ends the throttling of a source that had no drops for long enough.
    fn end(&mut self, source: Source, now: u64) -> Option<Change> {
        let State { since, dropped, estimated, grown, shadow, .. } = *self.throttled.get(&source)?;
        if now.saturating_sub(grown) < QUIET {
            return None;
        }
        let state = self.throttled.remove(&source)?;
        if self.quiet.len() >= MOST_QUIET {
            let longest = self.quiet.iter().min_by_key(|(_, state)| state.grown).map(|(source, _)| *source);
            longest.and_then(|longest| self.quiet.remove(&longest));
        }
        self.quiet.insert(source, state);
        Some(Change::Ended { dropped, estimated, seconds: grown.saturating_sub(since) / SECOND, shadow })
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::maps::event::REFUSED;

    use super::*;

    const SOURCE: Source = Source::v4([10, 9, 0, 66]);

    fn event(kind: u32, time: u64, dropped: u64) -> Event {
        let reason = Reason::OverPackets as u32;
        Event { number: 1, time: time * SECOND, source: SOURCE, until: 0, dropped, kind, reason }
    }

    fn throttled(shadow: bool) -> Option<Change> {
        Some(Change::Throttled { reason: "over-packets", shadow })
    }

    fn ended(dropped: u64, seconds: u64, shadow: bool) -> Option<Change> {
        Some(Change::Ended { dropped, estimated: false, seconds, shadow })
    }

    /// Takes counters at this second: of dropped packets, and of those that have passed in shadow.
    fn look_at(followed: &mut Followed, second: u64, [dropped, would_drop]: [u64; 2]) -> Option<Change> {
        followed.counted(SOURCE, Some(Bucket::counting([0, dropped, would_drop])), second * SECOND)
    }

    /// Takes a count of dropped packets.
    fn look(followed: &mut Followed, second: u64, dropped: u64) -> Option<Change> {
        look_at(followed, second, [dropped, 0])
    }

    #[test]
    fn a_source_that_is_refused_again_is_reported_again_without_an_event() {
        let mut followed = Followed::default();
        assert_eq!(followed.refused(&event(REFUSED, 1, 100)), throttled(false));
        assert_eq!(followed.refused(&event(REFUSED, 1, 100)), None);
        assert_eq!(look(&mut followed, 3, 150), None);
        assert_eq!(look(&mut followed, 12, 150), None);
        assert_eq!(look(&mut followed, 13, 150), ended(50, 2, false));
        assert_eq!(look(&mut followed, 30, 150), None);
        assert_eq!(look(&mut followed, 32, 157), throttled(false));
        assert_eq!(look(&mut followed, 34, 160), None);
        assert_eq!(look(&mut followed, 44, 160), ended(10, 2, false));
        // The program reports it too, and the notice comes only once.
        assert_eq!(followed.refused(&event(REFUSED, 60, 160)), throttled(false));
        assert_eq!(look(&mut followed, 61, 170), None);
        assert_eq!(look(&mut followed, 71, 170), ended(10, 1, false));
    }

    #[test]
    fn a_flood_that_has_ended_before_the_first_look_is_counted() {
        let mut followed = Followed::default();
        assert_eq!(followed.refused(&event(REFUSED, 1, 0)), throttled(false));
        assert_eq!(look(&mut followed, 2, 95), None);
        assert_eq!(look(&mut followed, 12, 95), ended(95, 1, false));
    }

    #[test]
    fn the_end_of_shadow_mode_is_reported() {
        let mut followed = Followed::default();
        assert_eq!(followed.refused(&event(SHADOWED, 1, 0)), throttled(true));
        assert_eq!(look_at(&mut followed, 2, [0, 95]), None);
        assert_eq!(look_at(&mut followed, 4, [5, 95]), throttled(false));
        assert_eq!(look_at(&mut followed, 6, [7, 95]), None);
        assert_eq!(look_at(&mut followed, 16, [7, 95]), ended(7, 2, false));
    }

    #[test]
    fn a_source_without_a_count_ends_and_is_forgotten() {
        let mut followed = Followed::default();
        assert_eq!(followed.refused(&event(REFUSED, 1, 0)), throttled(false));
        assert_eq!(look(&mut followed, 2, 95), None);
        // A count that starts at zero again does not grow.
        assert_eq!(look(&mut followed, 4, 3), None);
        assert_eq!(followed.counted(SOURCE, None, 12 * SECOND), ended(95, 1, false));
        assert_eq!(followed.counted(SOURCE, None, 14 * SECOND), None);
        assert!(followed.is_empty());
    }

    #[test]
    fn the_number_of_followed_sources_is_limited() {
        let mut followed = Followed::default();
        let source = |number: usize| Source::v4((number as u32).to_be_bytes());
        for number in 0..2 * MOST {
            let change = followed.refused(&Event { source: source(number), ..event(REFUSED, number as u64, 0) });
            assert_eq!(change, throttled(false));
        }
        assert_eq!(followed.sources().count(), MOST);
        let now = 3 * MOST as u64 * SECOND;
        for number in 0..MOST {
            let quiet = followed.counted(source(number), Some(Bucket::default()), now);
            assert_eq!(quiet, ended(0, 0, false));
        }
        assert_eq!(followed.sources().count(), MOST_QUIET);
        // The sources that were refused last stay.
        assert!(followed.sources().all(|known| (MOST - MOST_QUIET..MOST).any(|number| known == source(number))));
    }
}
