//! The limits in force: how they begin and end, and what the daemon tells of them.

use std::{collections::HashMap, mem, sync::PoisonError, time::Duration};

use tokio::sync::oneshot;

use super::counts::Shown;
use crate::{
    config::daemon::stops::Mode,
    controller::notify::journal::{Level, say},
    dataplane::sys::host,
    fleet::kept::stops::Stopped,
    stops::{Answer, Asker, Book, Place, Stop},
    text::{prefix::Prefix, units},
};

/// A limit to begin. The book has it.
pub(super) struct Begin {
    pub(super) place: Place,
    pub(super) end: Duration,
    pub(super) times: u32,
    pub(super) asker: Asker,
    /// Who waits for the answer. None if another host has told of the limit.
    pub(super) answer: Option<oneshot::Sender<Answer>>,
}

/// A limit in force.
struct Begun {
    since: Duration,
    end: Duration,
    times: u32,
    asker: Asker,
}

/// The limits in force, or those that would be.
pub(super) struct InForce {
    /// None without the table in the file.
    pub(super) mode: Option<Mode>,
    pub(super) book: Book,
    /// The limits that the kernel has.
    begun: HashMap<Place, Begun>,
    /// Whether the instance can have limits that are not in force here.
    has_leftovers: bool,
    /// Whether a file was applied. Before that, the instance can be one of another daemon.
    has_followed: bool,
    /// Whether limits have ended since the writer has looked.
    has_ended: bool,
    shown: Shown,
}

impl InForce {
    pub(super) fn of(shown: Shown) -> Self {
        Self {
            mode: None,
            book: Book::default(),
            begun: HashMap::new(),
            has_leftovers: false,
            has_followed: false,
            has_ended: false,
            shown,
        }
    }

    /// Applies the mode of a file.
    pub(super) fn follow(&mut self, mode: Option<Mode>) {
        let was_on = self.mode == Some(Mode::On);
        // A daemon before can have left some.
        self.has_leftovers |= !self.has_followed || was_on && mode != Some(Mode::On);
        self.has_followed = true;
        if mode != self.mode && !was_on {
            self.book = Book::default();
        }
        self.mode = mode;
        self.show();
    }

    /// Returns whether limits may begin.
    pub(super) fn may_begin(&self) -> bool {
        self.mode == Some(Mode::On) && !self.has_leftovers
    }

    /// Returns whether the instance can have limits that are not in force here.
    pub(super) fn has_leftovers(&self) -> bool {
        self.has_leftovers
    }

    /// Returns whether any limit is in force.
    pub(super) fn has_begun_any(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Records a limit that the kernel has, and answers.
    pub(super) fn begun(&mut self, begin: Begin) {
        let Begin { place, end, times, asker, answer } = begin;
        let now = Duration::from_nanos(host::now());
        let (Place { source, port }, life) = (place, end.saturating_sub(now));
        // The way to the kernel takes a part of the first second.
        let seconds = whole_seconds(life);
        let text = units::write_duration(Duration::from_secs(seconds));
        say(Level::Info, &format!("{source} tcp/{port}: limited for {text} (number {times}): {asker}"));
        self.begun.insert(place, Begun { since: now, end, times, asker });
        let stopped = Answer::Stopped { source: source.to_string(), port, seconds, times };
        match answer {
            Some(answer) => {
                self.count(&stopped);
                let _ = answer.send(stopped);
            }
            None => self.show(),
        }
    }

    /// Records that the kernel does not have a limit with this end.
    pub(super) fn never_begun(&mut self, place: Place, end: Duration) {
        self.book.take_back(place, end);
    }

    /// Tells of limits that have ended by `now`.
    pub(super) fn pass(&mut self, now: Duration) {
        for place in self.book.ended(now) {
            if self.begun.remove(&place).is_some() {
                self.has_ended = true;
                say_end(&place, "the limit of an application has ended");
            }
        }
        self.show();
    }

    /// Tells of limits that have ended. Returns whether any have since the last call.
    pub(super) fn end_due(&mut self) -> bool {
        self.pass(Duration::from_nanos(host::now()));
        mem::take(&mut self.has_ended)
    }

    /// Ends the limits that do not stand any more: a rule of an operator has taken their place.
    pub(super) fn end_others(&mut self, stands: impl Fn(&Place) -> bool) {
        let now = Duration::from_nanos(host::now());
        let gone: Vec<Place> = self
            .begun
            .iter()
            .filter(|(place, begun)| begun.end > now && !stands(place))
            .map(|(place, _)| *place)
            .collect();
        for place in gone {
            self.end(place, "the limit of an application has given way to the operator's rules");
        }
        self.show();
    }

    /// Ends all limits, which the instance does not have any more.
    pub(super) fn end_all(&mut self) {
        let all: Vec<Place> = self.begun.keys().copied().collect();
        all.into_iter()
            .for_each(|place| self.end(place, "the limit of an application has ended with the mode of the file"));
        self.has_leftovers = false;
        self.show();
    }

    fn end(&mut self, place: Place, how: &str) {
        self.book.end(place, Duration::from_nanos(host::now()));
        if self.begun.remove(&place).is_some() {
            say_end(&place, how);
        }
    }

    /// Returns the limits in force that applications of this host have asked for, and how long they last.
    pub(super) fn own(&self) -> Vec<(Stopped, Duration)> {
        let now = Duration::from_nanos(host::now());
        let own = self.begun.iter().filter(|(_, begun)| begun.asker.host.is_none() && begun.end > now);
        let stopped = |(place, begun): (&Place, &Begun)| {
            let Place { source, port } = *place;
            (Stopped { source, port, rule: begun.asker.rule.clone() }, begun.end.saturating_sub(now))
        };
        own.map(stopped).collect()
    }

    /// Returns the limits in force that concern an address.
    pub(super) fn of_address(&self, address: &Prefix) -> Vec<Stop> {
        let now = Duration::from_nanos(host::now());
        let these = self.begun.iter().filter(|(place, _)| place.source.contains(address));
        let stop = |(place, begun): (&Place, &Begun)| Stop {
            source: place.source.to_string(),
            port: place.port,
            since_seconds: now.saturating_sub(begun.since).as_secs(),
            left_seconds: begun.end.saturating_sub(now).as_secs(),
            times: begun.times,
            asker: begun.asker.clone(),
        };
        let mut stops: Vec<Stop> = these.map(stop).collect();
        stops.sort_unstable_by(|one, other| (one.port, &one.source).cmp(&(other.port, &other.source)));
        stops
    }

    pub(super) fn count(&self, answer: &Answer) {
        let mut counts = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Answer::Stopped { .. } => counts.stopped += 1,
            Answer::WouldStop { .. } => counts.would_stop += 1,
            Answer::Already { .. } => counts.already += 1,
            Answer::Refused { reason, .. } => *counts.refused.entry(*reason).or_default() += 1,
        }
        drop(counts);
        self.show();
    }

    /// Shows what is in force at this time.
    pub(super) fn show(&self) {
        let mut counts = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        counts.is_on = self.mode.is_some();
        counts.in_force = self.begun.len();
        counts.in_shadow = if self.mode == Some(Mode::Shadow) { self.book.in_force().len() } else { 0 };
    }
}

fn say_end(place: &Place, how: &str) {
    say(Level::Info, &format!("{} tcp/{}: {how}", place.source, place.port));
}

/// Returns seconds, rounded up.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
