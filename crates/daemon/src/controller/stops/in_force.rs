//! The limits in force: how they begin and end, and what the daemon tells of them.

use std::{collections::HashMap, mem, sync::PoisonError, time::Duration};

use jiff::Timestamp;
use ratelimit_base::{
    notify::journal::{Level, say},
    text::prefix::Prefix,
};
use ratelimit_dataplane::sys::host;
use ratelimit_protocol::stops::{Answer, Asker, Book, End, Event, Place, Reason, State, Stop, Stopped};
use tokio::sync::oneshot;

use super::{counts::Shown, journal::Journal, kernel::LATE};
use crate::config::daemon::stops::Mode;

/// A limit to begin. The book has it.
pub(super) struct Begin {
    pub(super) place: Place,
    pub(super) end: Duration,
    pub(super) times: u32,
    pub(super) asker: Asker,
    /// Who waits for the answer. None if another host has told of the limit.
    pub(super) answer: Option<oneshot::Sender<Answer>>,
}

/// A limit in force, or one that would be.
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
    /// In shadow, the limits that it would have.
    shadow: HashMap<Place, Begun>,
    /// How they have begun and ended.
    pub(super) journal: Journal,
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
            shadow: HashMap::new(),
            journal: Journal::of(host::now()),
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
            let all: Vec<Place> = self.shadow.keys().copied().collect();
            all.into_iter().for_each(|place| self.end(place, End::Mode, None));
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

    /// Returns the places of all limits in force.
    pub(super) fn begun_places(&self) -> Vec<Place> {
        self.begun.keys().copied().collect()
    }

    /// Returns the places of all limits that are in force, or would be.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.begun.keys().chain(self.shadow.keys()).copied()
    }

    /// Records a limit that the kernel has, and answers.
    pub(super) fn begun(&mut self, begin: Begin) {
        let Begin { place, end, times, asker, answer } = begin;
        let now = Duration::from_nanos(host::now());
        if end <= now {
            // The rule acts no more, and is to be deleted.
            self.has_ended = true;
            return self.answer(answer, refused(Reason::Unknown, LATE));
        }
        let seconds = self.insert(place, end, times, asker, false);
        let Place { source, port } = place;
        self.answer(answer, Answer::Stopped { source: source.to_string(), port, seconds, times });
    }

    /// Records a limit that the kernel would have, if not for shadow. Returns its seconds.
    pub(super) fn would_begin(&mut self, place: Place, end: Duration, times: u32, asker: Asker) -> u64 {
        let seconds = self.insert(place, end, times, asker, true);
        self.show();
        seconds
    }

    fn insert(&mut self, place: Place, end: Duration, times: u32, asker: Asker, shadow: bool) -> u64 {
        let since = Duration::from_nanos(host::now());
        // The way to the kernel takes a part of the first second.
        let (Place { source, port }, seconds) = (place, whole_seconds(end.saturating_sub(since)));
        self.tell(Event::Stopped { source: source.to_string(), port, seconds, times, shadow, asker: asker.clone() });
        let limits = if shadow { &mut self.shadow } else { &mut self.begun };
        limits.insert(place, Begun { since, end, times, asker });
        seconds
    }

    /// Logs an event, and keeps it for commands.
    fn tell(&mut self, event: Event) {
        say(Level::Info, &event.to_string());
        self.journal.add(event, Timestamp::now());
    }

    /// Gives an answer to who waits for it.
    pub(super) fn answer(&mut self, waits: Option<oneshot::Sender<Answer>>, answer: Answer) {
        match waits {
            Some(waits) => {
                self.count(&answer);
                let _ = waits.send(answer);
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
            self.forget(place, End::Time, None);
        }
        self.show();
    }

    /// Forgets a limit, which is not in force any more.
    fn forget(&mut self, place: Place, reason: End, why: Option<String>) {
        let (begun, shadow) = match self.begun.remove(&place) {
            Some(begun) => (begun, false),
            None => match self.shadow.remove(&place) {
                Some(begun) => (begun, true),
                None => return,
            },
        };
        self.has_ended |= !shadow && reason == End::Time;
        let Place { source, port } = place;
        let asker = begun.asker;
        self.tell(Event::StopEnded { source: source.to_string(), port, shadow, reason, why, asker });
    }

    /// Tells of limits that have ended. Returns whether any have since the last call.
    pub(super) fn end_due(&mut self) -> bool {
        let now = Duration::from_nanos(host::now());
        self.pass(now);
        // The book has told the ends of these before they began.
        let is_past = |(place, begun): (&Place, &Begun)| (begun.end <= now).then_some(*place);
        let late: Vec<Place> = self.begun.iter().filter_map(is_past).collect();
        late.into_iter().for_each(|place| self.forget(place, End::Time, None));
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
            self.end(place, End::Ruled, None);
        }
        self.show();
    }

    /// Ends all limits, which the instance does not have any more.
    pub(super) fn end_all(&mut self) {
        self.begun_places().into_iter().for_each(|place| self.end(place, End::Mode, None));
        self.has_leftovers = false;
        self.show();
    }

    /// Ends a limit, which the instance does not have any more.
    pub(super) fn end(&mut self, place: Place, reason: End, why: Option<String>) {
        self.book.end(place, Duration::from_nanos(host::now()));
        self.forget(place, reason, why);
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

    /// Returns the limits that are in force for an address, or would be.
    pub(super) fn of_address(&self, address: &Prefix) -> Vec<Stop> {
        let now = Duration::from_nanos(host::now());
        let all = self.begun.iter().map(|stop| (stop, false)).chain(self.shadow.iter().map(|stop| (stop, true)));
        let stop = |((place, begun), shadow): ((&Place, &Begun), bool)| Stop {
            source: place.source.to_string(),
            port: place.port,
            since_seconds: now.saturating_sub(begun.since).as_secs(),
            left_seconds: begun.end.saturating_sub(now).as_secs(),
            times: begun.times,
            shadow,
            asker: begun.asker.clone(),
        };
        let mut stops: Vec<Stop> = all.filter(|((place, _), _)| place.source.contains(address)).map(stop).collect();
        stops.sort_unstable_by(|one, other| (one.port, &one.source).cmp(&(other.port, &other.source)));
        stops
    }

    /// Returns the mode of the file, and the number of limits. None without the table in the file.
    pub(super) fn state(&self) -> Option<State> {
        let mode = self.mode?.name().to_owned();
        Some(State { mode, in_force: self.begun.len(), in_shadow: self.shadow.len() })
    }

    pub(super) fn count(&self, answer: &Answer) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).count(answer);
        self.show();
    }

    /// Shows what is in force at this time.
    pub(super) fn show(&self) {
        let mut counts = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        counts.is_on = self.mode.is_some();
        counts.in_force = self.begun.len();
        counts.in_shadow = self.shadow.len();
    }
}

pub(super) fn refused(reason: Reason, why: impl ToString) -> Answer {
    Answer::Refused { reason, why: why.to_string() }
}

/// Returns seconds, rounded up.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_whose_end_is_past_does_not_begin() {
        let mut in_force = InForce::of(Shown::default());
        let (source, now) = (Prefix::host([192, 0, 2, 1].into()), Duration::from_nanos(host::now()));
        let mut begin = |place, end| {
            let asker = Asker { rule: "a".to_owned(), client: None, user: None, connection: None, host: None };
            let (answer, mut answered) = oneshot::channel();
            in_force.begun(Begin { place, end, times: 1, asker, answer: Some(answer) });
            (answered.try_recv().unwrap(), !in_force.begun.is_empty(), in_force.end_due())
        };
        let late = (refused(Reason::Unknown, LATE), false, true);
        assert_eq!(begin(Place { source, port: 443 }, now), late);
        let (answer, has_begun, has_ended) = begin(Place { source, port: 443 }, now + Duration::from_secs(60));
        assert!(matches!(answer, Answer::Stopped { .. }) && has_begun && !has_ended, "{answer:?}");
    }
}
