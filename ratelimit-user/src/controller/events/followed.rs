//! Sources that are followed: since when they are over their limits, and whether they still are.

use std::collections::HashMap;

use ratelimit_common::{
    identity::source::Source,
    limits::limit::SECOND,
    maps::event::{Event, QUIET, SHADOWED},
    reason::Reason,
};

use crate::dataplane::readings::source_drops::Count;

/// Sources that are followed until they are quiet; of others only the beginning is told.
const MOST: usize = 10_000;

/// Quiet ones that are remembered, since a note may go on to refuse them, of which the program does not tell.
const MOST_QUIET: usize = 1_000;

/// All of them.
#[derive(Default)]
pub(super) struct Followed {
    throttled: HashMap<Source, State>,
    quiet: HashMap<Source, State>,
}

/// One of them.
struct State {
    reason: &'static str,
    shadow: bool,
    since: u64,
    /// Packets dropped since then.
    dropped: u64,
    /// Packets dropped at the last look, of all times.
    count: u64,
    /// When that was seen to grow.
    grown: u64,
}

/// What has become of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is over its limit.
    Throttled {
        /// The name of the reason.
        reason: &'static str,
        /// Its packets pass all the same.
        shadow: bool,
    },
    /// It was quiet for long enough.
    Ended {
        /// Packets dropped meanwhile.
        dropped: u64,
        /// How long it lasted.
        seconds: u64,
        /// They have passed all the same.
        shadow: bool,
    },
}

impl Followed {
    /// Whether there is none, quiet ones included.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.throttled.is_empty() && self.quiet.is_empty()
    }

    /// All, quiet ones included, with what was counted at the last look.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Source, u64)> + '_ {
        self.throttled.iter().chain(&self.quiet).map(|(source, state)| (*source, state.count))
    }

    /// The program says that a limit refuses this source, which may be known.
    pub(super) fn refused(&mut self, event: &Event) -> Option<Change> {
        let Event { source, time, dropped, .. } = *event;
        let reason = Reason::ALL.get(event.reason as usize).map_or("unknown", |reason| reason.name());
        let shadow = event.kind == SHADOWED;
        if self.throttled.contains_key(&source) {
            return None;
        }
        if self.throttled.len() < MOST {
            // What it had counted since the last look is a part of what begins now.
            let count = self.quiet.remove(&source).map_or(dropped, |state| state.count);
            self.throttled.insert(source, State { reason, shadow, since: time, dropped: 0, count, grown: time });
        }
        Some(Change::Throttled { reason, shadow })
    }

    /// So much was counted of this source at `now`; nothing if nobody remembers it.
    pub(super) fn counted(&mut self, source: Source, count: Option<Count>, now: u64) -> Option<Change> {
        let is_quiet = self.quiet.contains_key(&source);
        let Some(count) = count else {
            self.quiet.remove(&source);
            return if is_quiet { None } else { self.end(source, now) };
        };
        let states = if is_quiet { &mut self.quiet } else { &mut self.throttled };
        let state = states.get_mut(&source)?;
        // Either begins anew after the other.
        let is_other = count.packets != 0 && count.shadow != state.shadow;
        let grown = if is_other { count.packets } else { count.packets.saturating_sub(state.count) };
        state.count = count.packets;
        if grown == 0 {
            return if is_quiet { None } else { self.end(source, now) };
        }
        (state.dropped, state.grown) = (state.dropped + grown, now);
        if !is_quiet && !is_other {
            return None;
        }
        let mut state = states.remove(&source)?;
        (state.shadow, state.since, state.dropped) = (count.shadow, now, grown);
        let change = Change::Throttled { reason: state.reason, shadow: state.shadow };
        if self.throttled.len() < MOST {
            self.throttled.insert(source, state);
        }
        Some(change)
    }

    /// Ends what has not grown for long enough.
    fn end(&mut self, source: Source, now: u64) -> Option<Change> {
        let State { since, dropped, grown, shadow, .. } = *self.throttled.get(&source)?;
        if now.saturating_sub(grown) < QUIET {
            return None;
        }
        let state = self.throttled.remove(&source)?;
        if self.quiet.len() >= MOST_QUIET {
            let longest = self.quiet.iter().min_by_key(|(_, state)| state.grown).map(|(source, _)| *source);
            longest.and_then(|longest| self.quiet.remove(&longest));
        }
        self.quiet.insert(source, state);
        Some(Change::Ended { dropped, seconds: grown.saturating_sub(since) / SECOND, shadow })
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
        Some(Change::Ended { dropped, seconds, shadow })
    }

    /// What is seen at a second.
    fn look(followed: &mut Followed, second: u64, packets: u64, shadow: bool) -> Option<Change> {
        followed.counted(SOURCE, Some(Count { packets, shadow }), second * SECOND)
    }

    #[test]
    fn whoever_is_refused_again_is_told_again_though_the_program_is_silent() {
        let mut followed = Followed::default();
        assert_eq!(followed.refused(&event(REFUSED, 1, 100)), throttled(false));
        assert_eq!(followed.refused(&event(REFUSED, 1, 100)), None);
        assert_eq!(look(&mut followed, 3, 150, false), None);
        assert_eq!(look(&mut followed, 12, 150, false), None);
        assert_eq!(look(&mut followed, 13, 150, false), ended(50, 2, false));
        assert_eq!(look(&mut followed, 30, 150, false), None);
        assert_eq!(look(&mut followed, 32, 157, false), throttled(false));
        assert_eq!(look(&mut followed, 34, 160, false), None);
        assert_eq!(look(&mut followed, 44, 160, false), ended(10, 2, false));
        // Told by the program as well, and only once.
        assert_eq!(followed.refused(&event(REFUSED, 60, 160)), throttled(false));
        assert_eq!(look(&mut followed, 61, 170, false), None);
        assert_eq!(look(&mut followed, 71, 170, false), ended(10, 1, false));
    }

    #[test]
    fn a_flood_that_has_ended_before_the_first_look_is_counted() {
        let mut followed = Followed::default();
        assert_eq!(followed.refused(&event(REFUSED, 1, 0)), throttled(false));
        assert_eq!(look(&mut followed, 2, 95, false), None);
        assert_eq!(look(&mut followed, 12, 95, false), ended(95, 1, false));
    }

    #[test]
    fn shadow_that_ends_is_told() {
        let mut followed = Followed::default();
        assert_eq!(followed.refused(&event(SHADOWED, 1, 0)), throttled(true));
        assert_eq!(look(&mut followed, 2, 95, true), None);
        assert_eq!(look(&mut followed, 4, 5, false), throttled(false));
        assert_eq!(look(&mut followed, 6, 7, false), None);
        assert_eq!(look(&mut followed, 16, 7, false), ended(7, 2, false));
    }

    #[test]
    fn what_nobody_remembers_ends_and_is_forgotten() {
        let mut followed = Followed::default();
        assert_eq!(followed.refused(&event(REFUSED, 1, 0)), throttled(false));
        assert_eq!(look(&mut followed, 2, 95, false), None);
        // A count that begins anew is none that grows.
        assert_eq!(look(&mut followed, 4, 3, false), None);
        assert_eq!(followed.counted(SOURCE, None, 12 * SECOND), ended(95, 1, false));
        assert_eq!(followed.counted(SOURCE, None, 14 * SECOND), None);
        assert!(followed.is_empty());
    }

    #[test]
    fn there_are_never_more_than_fit() {
        let mut followed = Followed::default();
        let source = |number: usize| Source::v4((number as u32).to_be_bytes());
        for number in 0..2 * MOST {
            let told = followed.refused(&Event { source: source(number), ..event(REFUSED, number as u64, 0) });
            assert_eq!(told, throttled(false));
        }
        assert_eq!(followed.iter().count(), MOST);
        let now = 3 * MOST as u64 * SECOND;
        for number in 0..MOST {
            let quiet = followed.counted(source(number), Some(Count { packets: 0, shadow: false }), now);
            assert_eq!(quiet, ended(0, 0, false));
        }
        assert_eq!(followed.iter().count(), MOST_QUIET);
        // Those who were refused last.
        assert!(followed.iter().all(|(known, _)| (MOST - MOST_QUIET..MOST).any(|number| known == source(number))));
    }
}
