//! Events of stopped clients, which the daemon keeps.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::notice::{Notice, What};
use crate::{
    controller::socket::client,
    stops::{Events, Numbered},
};

/// Returns all events that a daemon keeps, the oldest first. Returns none without a daemon, and while it does not answer.
pub(crate) fn past(pins: &Path) -> Vec<Notice> {
    after(pins, &mut 0)
}

/// Follows the events.
pub(crate) struct Follower {
    pins: PathBuf,
    begin: Timestamp,
    /// The last event that was seen.
    last: u64,
}

impl Follower {
    /// Follows the daemon of an instance from now on. It need not run yet.
    pub(crate) fn of(pins: &Path) -> Self {
        let seen = client::stop_events(pins, u64::MAX);
        Self { pins: pins.to_owned(), begin: Timestamp::now(), last: seen.map_or(0, |seen| seen.newest) }
    }

    /// Returns what has happened since the last call.
    pub(crate) fn news(&mut self) -> Vec<Notice> {
        let mut news = after(&self.pins, &mut self.last);
        // A daemon that did not answer at the start tells older ones too.
        news.retain(|notice| notice.at >= self.begin);
        news
    }
}

/// Returns the events after this number, which becomes that of the last one.
fn after(pins: &Path, last: &mut u64) -> Vec<Notice> {
    let mut notices = Vec::new();
    while let Some(Events { events, left_out, newest }) = client::stop_events(pins, *last) {
        // At the start, none were lost.
        if left_out > 0 && *last > 0 {
            let at = events.first().map_or_else(Timestamp::now, |event| event.at);
            notices.push(Notice { at, what: What::LeftOut { count: left_out } });
        }
        let Some(end) = events.last().map(|event| event.number) else { break };
        let notice = |Numbered { at, event, .. }| Notice { at, what: What::Stop(event) };
        notices.extend(events.into_iter().map(notice));
        *last = end;
        if end >= newest {
            break;
        }
    }
    notices
}
