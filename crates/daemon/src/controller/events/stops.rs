//! Events of stopped clients, which the daemon keeps.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ratelimit_protocol::stops::{Events, Numbered};

use super::notice::{Notice, What};
use crate::controller::socket::client::{self, SocketError};

/// How long a daemon is left alone that has not answered. Each question delays the events of the kernel.
const PAUSE: Duration = Duration::from_secs(5);

/// Returns all events that a daemon keeps, the oldest first. Returns none without a daemon, and while it does not answer.
pub fn past(pins: &Path) -> Vec<Notice> {
    after(&mut 0, |number| client::stop_events(pins, number)).0
}

/// Follows the events.
pub struct Follower {
    pins: PathBuf,
    state: State,
}

struct State {
    /// When it began, until the daemon of that time has answered or is gone. Then numbers say what is new.
    begin: Option<Timestamp>,
    /// The last event that was seen.
    last: u64,
    /// When a daemon is asked again that has not answered.
    again: Option<Instant>,
}

impl Follower {
    /// Follows the daemon of an instance from now on. It need not run yet.
    pub fn of(pins: &Path) -> Self {
        let seen = client::stop_events(pins, u64::MAX);
        Self { pins: pins.to_owned(), state: State::of(seen, Timestamp::now(), Instant::now()) }
    }

    /// Returns what has happened since the last call.
    pub fn news(&mut self) -> Vec<Notice> {
        let Self { pins, state } = self;
        state.news(Instant::now(), |number| client::stop_events(pins, number))
    }
}

impl State {
    fn of(seen: Result<Events, SocketError>, begin: Timestamp, now: Instant) -> Self {
        match seen {
            Ok(seen) => Self { begin: None, last: seen.newest, again: None },
            // All events of a later daemon are new.
            Err(SocketError::NoDaemon(_)) => Self { begin: None, last: 0, again: None },
            Err(_) => Self { begin: Some(begin), last: 0, again: Some(now + PAUSE) },
        }
    }

    fn news(&mut self, now: Instant, ask: impl FnMut(u64) -> Result<Events, SocketError>) -> Vec<Notice> {
        if self.again.is_some_and(|again| now < again) {
            return Vec::new();
        }
        let (mut news, end) = after(&mut self.last, ask);
        if let Some(begin) = self.begin {
            news.retain(|notice| notice.at >= begin);
        }
        (self.begin, self.again) = match end {
            Ok(()) | Err(SocketError::NoDaemon(_)) => (None, None),
            Err(_) => (self.begin, Some(now + PAUSE)),
        };
        news
    }
}

/// Returns the events after this number, which becomes that of the last one, and whether the daemon has told all.
fn after(
    last: &mut u64,
    mut ask: impl FnMut(u64) -> Result<Events, SocketError>,
) -> (Vec<Notice>, Result<(), SocketError>) {
    let mut notices = Vec::new();
    loop {
        let Events { events, left_out, newest } = match ask(*last) {
            Ok(events) => events,
            Err(error) => return (notices, Err(error)),
        };
        // At the start, none were lost.
        if left_out > 0 && *last > 0 {
            let at = events.first().map_or_else(Timestamp::now, |event| event.at);
            notices.push(Notice { at, what: What::LeftOut { count: left_out } });
        }
        let Some(end) = events.last().map(|event| event.number) else { return (notices, Ok(())) };
        let notice = |Numbered { at, event, .. }| Notice { at, what: What::Stop(event) };
        notices.extend(events.into_iter().map(notice));
        *last = end;
        if end >= newest {
            return (notices, Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratelimit_protocol::stops::{Asker, End, Event};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns the answer of a daemon with one event, which has this number and time.
    fn one(number: u64, second: i64) -> Result<Events, SocketError> {
        let asker = Asker { rule: "a".to_owned(), client: None, user: None, connection: None, host: None };
        let source = "192.0.2.1".to_owned();
        let event = Event::StopEnded { source, port: 443, shadow: false, reason: End::Time, why: None, asker };
        Ok(Events { events: vec![Numbered { number, at: at(second), event }], left_out: 0, newest: number })
    }

    #[test]
    fn after_the_first_answer_numbers_say_what_is_new_whatever_the_clock_says() {
        let now = Instant::now();
        let none = || Err(SocketError::NoDaemon(PathBuf::new()));
        for seen in [Ok(Events { newest: 4, ..Events::default() }), none()] {
            let mut state = State::of(seen, at(1_000), now);
            assert_eq!(state.news(now, |_| one(5, 10)).len(), 1);
            assert_eq!(state.last, 5);
        }
        // A daemon that hangs at the start can tell older events at last.
        let mut state = State::of(Err(SocketError::NoAnswer), at(1_000), now);
        assert!(state.news(now + PAUSE, |_| one(5, 10)).is_empty());
        assert_eq!(state.news(now + PAUSE, |_| one(6, 10)).len(), 1);
        // Its end is as good as an answer.
        let mut state = State::of(Err(SocketError::NoAnswer), at(1_000), now);
        assert!(state.news(now + PAUSE, |_| none()).is_empty());
        assert_eq!(state.news(now + PAUSE, |_| one(5, 10)).len(), 1);
    }

    #[test]
    fn a_daemon_that_does_not_answer_is_left_alone_for_a_while() {
        let (now, mut asked) = (Instant::now(), 0);
        let mut state = State::of(Err(SocketError::NoAnswer), at(0), now);
        for millisecond in 0..=10_000 {
            state.news(now + Duration::from_millis(millisecond), |_| {
                asked += 1;
                Err(SocketError::NoAnswer)
            });
        }
        assert_eq!(asked, 2);
    }
}
