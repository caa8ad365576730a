//! Reads the events of the program. Any number of readers can, and none affects another.

use std::sync::atomic::{Ordering, fence};

use aya::maps::IterableMap as _;
use ratelimit_common::maps::event::{self, Event, Written};

use crate::{Error, sys::mmap_array::Mapped, tables::open::Tables};

/// A reader with its position.
pub struct Reader {
    events: Mapped<Event>,
    written: Mapped<Written>,
    position: Position,
}

/// Events since the last reading.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// In the order of their numbers.
    pub events: Vec<Event>,
    /// Events that were overwritten before they were read, or that the program has left out.
    pub missed: u64,
}

impl Reader {
    /// Reads events after `since`, in nanoseconds of the monotonic clock. Events that were left out before do not count
    /// as missed.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn of(tables: &Tables, since: u64) -> Result<Self, Error> {
        let (events, written) =
            (Mapped::of(tables.events.open()?.map())?, Mapped::of(tables.events_written.open()?.map())?);
        let position = Position::after(since, head(&written), |place| events.get(place));
        Ok(Self { events, written, position })
    }

    /// Returns whether it reads these maps.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn reads(&self, tables: &Tables) -> Result<bool, Error> {
        self.events.is_of(tables.events.open()?.map())
    }

    /// Returns whether there are events since the last reading.
    #[must_use]
    pub fn has_news(&self) -> bool {
        let Written { events, left_out, .. } = head(&self.written);
        self.position != Position { last: events, left_out }
    }

    /// Returns the events since the last reading.
    pub fn read(&mut self) -> News {
        self.position.read(head(&self.written), |place| self.events.get(place))
    }
}

fn head(written: &Mapped<Written>) -> Written {
    written.get(0).unwrap_or_default()
}

/// The position of a reader in the array.
#[derive(Debug, PartialEq, Eq)]
struct Position {
    /// Number of the last event.
    last: u64,
    left_out: u64,
}

impl Position {
    /// Returns the position after all events up to `since`.
    fn after(since: u64, written: Written, at: impl Fn(usize) -> Option<Event>) -> Self {
        let oldest = oldest(&written);
        let mut position = Self { last: oldest, left_out: written.left_out };
        let newer = position.read(written, at).events.into_iter().find(|event| event.time > since);
        Self { last: newer.map_or(written.events, |event| event.number - 1), left_out: written.left_out }
    }

    fn read(&mut self, written: Written, at: impl Fn(usize) -> Option<Event>) -> News {
        let mut news = News { missed: written.left_out.saturating_sub(self.left_out), ..News::default() };
        self.left_out = written.left_out;
        let oldest = oldest(&written);
        if self.last < oldest {
            news.missed += oldest - self.last;
            self.last = oldest;
        }
        while self.last < written.events {
            let number = self.last + 1;
            match entry(number, || at(event::place(number) as usize)) {
                Entry::Whole(event) => news.events.push(event),
                Entry::Unfinished => break,
                Entry::Overwritten => news.missed += 1,
            }
            self.last = number;
        }
        news
    }
}

/// Returns the number of the event before the oldest present one.
fn oldest(written: &Written) -> u64 {
    written.events.saturating_sub(u64::from(event::PLACES))
}

/// The contents of an event's place.
enum Entry {
    Whole(Event),
    /// The program is writing it.
    Unfinished,
    /// A newer event has its place.
    Overwritten,
}

/// Reads the number before and after the rest. The program writes 0 there before the rest, and the number after it.
fn entry(number: u64, read: impl Fn() -> Option<Event>) -> Entry {
    let numbered = || read().map_or(0, |event| event.number);
    let before = numbered();
    // No processor reads the rest before this number, or after the other one.
    fence(Ordering::Acquire);
    let seen = read();
    fence(Ordering::Acquire);
    let after = numbered();
    match seen {
        Some(event) if [before, event.number, after] == [number; 3] => Entry::Whole(event),
        _ if before > number || after > number => Entry::Overwritten,
        _ => Entry::Unfinished,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ratelimit_common::{
        identity::source::Source,
        maps::event::{PLACES, REFUSED},
    };

    use super::*;

    /// Events come a microsecond apart.
    fn event(number: u64) -> Event {
        let source = Source::v4((number as u32).to_be_bytes());
        Event { number, time: number * 1_000, source, until: 0, dropped: number, kind: REFUSED, reason: 0 }
    }

    /// The array after so many events.
    fn places(events: u64) -> Vec<Event> {
        let mut places = vec![Event { number: 0, ..event(0) }; PLACES as usize];
        for number in 1..=events {
            places[event::place(number) as usize] = event(number);
        }
        places
    }

    fn written(events: u64, left_out: u64) -> Written {
        Written { events, left_out, ..Written::default() }
    }

    fn numbers(news: &News) -> Vec<u64> {
        news.events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn what_was_overwritten_is_missed_and_the_rest_is_read_in_order() {
        let most = u64::from(PLACES);
        let places = places(most + 10);
        let mut position = Position { last: 3, left_out: 5 };
        let news = position.read(written(most + 10, 7), |place| places.get(place).copied());
        assert_eq!(news.missed, 7 + 2);
        assert_eq!(numbers(&news), (11..=most + 10).collect::<Vec<_>>());
        let news = position.read(written(most + 10, 7), |place| places.get(place).copied());
        assert_eq!(news, News::default());
    }

    #[test]
    fn what_is_just_being_written_is_waited_for() {
        let mut places = places(3);
        let mut position = Position { last: 0, left_out: 0 };
        places[2].number = 0;
        let news = position.read(written(3, 0), |place| places.get(place).copied());
        assert_eq!((numbers(&news), news.missed), (vec![1], 0));
        places[2] = event(2);
        let news = position.read(written(3, 0), |place| places.get(place).copied());
        assert_eq!((numbers(&news), news.missed), (vec![2, 3], 0));
    }

    #[test]
    fn what_is_overwritten_while_it_is_read_is_not_told() {
        let newer = 1 + u64::from(PLACES);
        // At each of the three looks at the place.
        for (change, half_written) in [(0, false), (1, false), (2, false), (1, true), (2, true)] {
            let looks = Cell::new(0);
            let read = |_| {
                let look = looks.replace(looks.get() + 1);
                let is_changed = look >= change;
                let number = if half_written { 0 } else { newer };
                Some(if is_changed { Event { number, ..event(newer) } } else { event(1) })
            };
            let mut position = Position { last: 0, left_out: 0 };
            let news = position.read(written(1, 0), read);
            assert_eq!(news.events, [], "{change} {half_written}");
            assert_eq!((news.missed, position.last), if half_written { (0, 0) } else { (1, 1) });
        }
    }

    #[test]
    fn a_copy_of_what_was_told_is_not_told_again() {
        let most = u64::from(PLACES);
        for events in [0, 3, most + 10] {
            let places = places(events);
            let at = |place| places.get(place).copied();
            for newer in 0..=events.min(3) {
                let since = (events - newer) * 1_000;
                let mut position = Position::after(since, written(events, 9), at);
                let news = position.read(written(events, 9), at);
                assert_eq!((numbers(&news), news.missed), ((events - newer + 1..=events).collect(), 0));
            }
        }
    }
}
