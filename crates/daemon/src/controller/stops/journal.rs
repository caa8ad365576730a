//! The last beginnings and ends of limits, for `ratelimit events`. They have a place of their own, so that they push out no
//! entry of an operator.

use std::collections::VecDeque;

use jiff::Timestamp;
use ratelimit_protocol::stops::{Event, Events, Numbered};

/// The most events that are kept.
const KEPT: usize = 2_048;
/// The most events in one answer.
const PART: usize = 256;

/// The last events.
#[derive(Debug)]
pub(super) struct Journal {
    events: VecDeque<Numbered>,
    /// The number of the first event.
    first: u64,
    /// That of the next one.
    next: u64,
}

impl Journal {
    /// Begins with this number. It must be greater than those of earlier daemons.
    pub(super) fn of(first: u64) -> Self {
        Self { events: VecDeque::new(), first, next: first }
    }

    pub(super) fn add(&mut self, event: Event, at: Timestamp) {
        if self.events.len() >= KEPT {
            self.events.pop_front();
        }
        self.events.push_back(Numbered { number: self.next, at, event });
        self.next = self.next.saturating_add(1);
    }

    /// Returns the oldest events after this number.
    pub(super) fn after(&self, number: u64) -> Events {
        let wanted = number.saturating_add(1).max(self.first);
        let oldest = self.events.front().map_or(self.next, |event| event.number);
        let from = usize::try_from(wanted.saturating_sub(oldest)).unwrap_or(usize::MAX);
        Events {
            events: self.events.iter().skip(from).take(PART).cloned().collect(),
            left_out: oldest.saturating_sub(wanted),
            newest: self.next.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratelimit_protocol::stops::{Asker, End};

    fn event(port: u16) -> Event {
        let asker = Asker { rule: "a".to_owned(), client: None, user: None, connection: None, host: None };
        let source = "192.0.2.1".to_owned();
        Event::StopEnded { source, port, shadow: false, reason: End::Time, why: None, asker }
    }

    #[test]
    fn the_last_events_are_kept_in_order_and_the_others_are_counted() {
        let mut journal = Journal::of(1_000);
        assert_eq!(journal.after(0), Events { newest: 999, ..Events::default() });
        for number in 0..KEPT + 10 {
            journal.add(event(number as u16), Timestamp::UNIX_EPOCH);
        }
        let (mut last, mut seen, mut left_out) = (0, Vec::new(), 0);
        loop {
            let Events { events, left_out: more, newest } = journal.after(last);
            assert_eq!(newest, 1_000 + KEPT as u64 + 9);
            assert!(events.len() <= PART);
            left_out += more;
            let Some(end) = events.last() else { break };
            last = end.number;
            seen.extend(events.into_iter().map(|event| event.number));
        }
        let kept: Vec<u64> = (1_010..1_010 + KEPT as u64).collect();
        assert_eq!((seen, left_out), (kept, 10));
        // Who has seen some of the lost ones has lost only the others.
        assert_eq!([1_003, 1_009, 1_500, u64::MAX].map(|last| journal.after(last).left_out), [6, 0, 0, 0]);
    }
}
