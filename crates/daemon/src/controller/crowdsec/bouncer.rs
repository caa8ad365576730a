//! The loop of the bouncer: asks in time, takes answers, and has the list put in force.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use ratelimit_base::notify::journal::Level;
use ratelimit_dataplane::sys::host;

use super::{
    ask::{AskError, ask},
    list::List,
    shown::{Counts, Shown},
    told::Told,
};
use crate::{
    config::daemon::crowdsec::CrowdSec,
    crowdsec::{Answer, Decisions, Question, State},
    ssh,
};

/// Failures in a row after which the API is asked less often.
const FAILURES: u32 = 3;
/// The time between two questions then, if it is longer.
const RARELY: Duration = Duration::from_secs(60);
/// The time between two questions for all decisions. The API does not tell of those that its database has deleted.
const ALL: Duration = Duration::from_secs(3_600);
/// The same while decisions have no space, so that they get the space of those that end.
const NO_SPACE: Duration = Duration::from_secs(600);
/// The longest time between two looks at ends, and the shortest between two edits of the list because of them. Each edit
/// makes the program decide about all sources again.
const ENDS: Duration = Duration::from_secs(10);
/// The time between two tries to delete the list.
const AGAIN: Duration = Duration::from_secs(5);

/// What the operator is told if the daemon knows no decision.
const LIST_STAYS: &str = "the list of an earlier daemon stays for an hour at most";

/// What the loop waits for.
pub(super) enum Event {
    /// The file has another table, or none.
    Follow(Option<CrowdSec>),
    /// The question with this number has an answer.
    Answered(u64, Result<Answer, AskError>),
    /// The daemon ends.
    End,
}

/// Where the loop hears of events. None while it does not run.
pub(super) type Running = Arc<Mutex<Option<Sender<Event>>>>;

/// The state of the loop.
pub(super) struct Bouncer {
    table: Option<CrowdSec>,
    /// None before the first answer.
    decisions: Option<Decisions>,
    /// It changes with the decisions.
    version: u64,
    /// The number of the last question.
    number: u64,
    /// What the last question is about, until its answer.
    asked: Option<Question>,
    /// When to look at ends, and whether to ask. None if nothing is to be done.
    due: Option<Instant>,
    /// From then on, the API is asked.
    question_due: Instant,
    /// From then on, decisions that have ended change the list.
    ends_due: Instant,
    /// From then on, a question is for all decisions.
    all_due: Instant,
    /// Failures in a row.
    failures: u32,
    /// Whether the last answer had too few decisions to be believed.
    doubts: bool,
    /// Whether the operator has heard of decisions that are not put in force.
    has_told_of_ignored: bool,
    list: List,
    api: Told,
    events: Sender<Event>,
    counts: Counts,
    shown: Shown,
}

impl Bouncer {
    pub(super) fn of(pins: &Path, origin: ssh::Origin, events: Sender<Event>, shown: Shown) -> Self {
        Self {
            table: None,
            decisions: None,
            version: 0,
            number: 0,
            asked: None,
            due: None,
            question_due: Instant::now(),
            ends_due: Instant::now(),
            all_due: Instant::now(),
            failures: 0,
            doubts: false,
            has_told_of_ignored: false,
            list: List::of(pins, origin),
            api: Told::of(pins),
            events,
            counts: Counts::default(),
            shown,
        }
    }

    /// Runs until the daemon ends, or there is no table and the list is deleted.
    pub(super) fn run(mut self, happened: &Receiver<Event>, running: &Running) {
        loop {
            let event = if let Some(due) = self.due {
                happened.recv_timeout(due.saturating_duration_since(Instant::now()))
            } else {
                let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
                // Events are sent under this lock, so none gets lost.
                let Ok(event) = happened.try_recv() else { return *running = None };
                Ok(event)
            };
            match event {
                Ok(Event::Follow(table)) => self.follow(table),
                Ok(Event::Answered(number, outcome)) => self.answered(number, outcome),
                Err(RecvTimeoutError::Timeout) => self.step(),
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
            self.show();
        }
    }

    fn follow(&mut self, table: Option<CrowdSec>) {
        // Another key changes no decision.
        let url = |table: &Option<CrowdSec>| table.as_ref().map(CrowdSec::url);
        if url(&self.table) != url(&table) {
            self.decisions = None;
        }
        // An answer to a question before is about another table.
        (self.asked, self.number) = (None, self.number + 1);
        (self.failures, self.doubts, self.has_told_of_ignored) = (0, false, false);
        (self.all_due, self.question_due, self.due) = (Instant::now(), Instant::now(), Some(Instant::now()));
        self.counts = Counts::default();
        self.api.succeed("the table has changed");
        self.table = table;
        self.step();
    }

    fn step(&mut self) {
        self.put();
        let now = Instant::now();
        let Some(table) = &self.table else {
            self.due = (!self.list.forget()).then(|| now + AGAIN);
            return;
        };
        let every = table.every;
        if self.asked.is_none() && self.question_due <= now {
            self.question_due = now + every;
            let question = if self.all_due <= now { Question::All } else { Question::Changes };
            let (table, events, number) = (table.clone(), self.events.clone(), self.number + 1);
            (self.number, self.asked) = (number, Some(question));
            // The loop ends with the daemon.
            let asks = move || drop(events.send(Event::Answered(number, ask(&table, question))));
            if let Err(error) = thread::Builder::new().name("crowdsec-ask".to_owned()).spawn(asks) {
                self.answered(number, Err(error.into()));
            }
        }
        // A question that waits for its answer is followed by the next one in time.
        let next = if self.question_due > now { self.question_due } else { now + every };
        self.due = Some(next.min(now + ENDS));
    }

    /// Takes what a question has led to, unless the table has changed since.
    fn answered(&mut self, number: u64, outcome: Result<Answer, AskError>) {
        let Some(question) = self.asked.take_if(|_| self.number == number) else { return };
        self.failures = if outcome.is_ok() { 0 } else { self.failures.saturating_add(1) };
        let outcome = outcome.map_err(|error| error.to_string()).and_then(|answer| self.believed(answer, question));
        match outcome {
            Ok(answer) => {
                let is_first = self.decisions.is_none();
                self.take(&answer, question);
                self.put();
                if is_first && self.list.problem().is_none() {
                    let decisions = self.decisions.as_ref().map_or(0, Decisions::count);
                    let text = format!("{decisions} decisions, {} entries in force", self.list.entries());
                    self.api.tell(Level::Info, &text);
                }
            }
            Err(error) => {
                self.counts.failures += 1;
                self.all_due = Instant::now();
                if self.failures >= FAILURES {
                    self.question_due = self.question_due.max(Instant::now() + RARELY);
                }
                let is_known = self.decisions.is_some();
                let stays = if is_known { "decisions in force stay until their ends" } else { LIST_STAYS };
                self.api.fail(error, &format!("; {stays}"));
            }
        }
    }

    /// Returns an answer, but not the first one that says that most decisions are gone.
    fn believed(&mut self, answer: Answer, question: Question) -> Result<Answer, String> {
        let in_force = self.list.entries();
        let is_doubtful = question == Question::All && !self.doubts && (answer.count() as u64) < in_force / 2;
        self.doubts = is_doubtful;
        if !is_doubtful {
            return Ok(answer);
        }
        Err(format!(
            "the API has {} decisions now, and {in_force} entries are in force: it is asked again",
            answer.count()
        ))
    }

    fn take(&mut self, answer: &Answer, question: Question) {
        self.counts.answers += 1;
        self.counts.answered = Some((Instant::now(), SystemTime::now()));
        self.api.succeed("the API answers again");
        let (decisions, now) = (self.decisions.get_or_insert_default(), host::now());
        let has_changed = match question {
            Question::All => {
                decisions.replace(answer, now);
                true
            }
            Question::Changes => decisions.change(answer, now),
        };
        let all_due = Instant::now() + if decisions.left_out() == 0 { ALL } else { NO_SPACE };
        self.all_due = if question == Question::All { all_due } else { self.all_due.min(all_due) };
        self.version += u64::from(has_changed);
        if let Some(example) = answer.example().filter(|_| !self.has_told_of_ignored) {
            self.has_told_of_ignored = true;
            let text = format!("only bans of addresses and ranges are put in force; left out, for example: {example}");
            self.api.tell(Level::Warning, &text);
        }
    }

    /// Puts decisions in force. Before the first answer, the list stays as it is.
    fn put(&mut self) {
        let Some(decisions) = &mut self.decisions else { return };
        let now = Instant::now();
        if self.ends_due <= now && decisions.expire(host::now()) {
            self.version += 1;
            self.ends_due = now + ENDS;
        }
        self.list.put(decisions, self.version);
    }

    /// Shows other threads what has become of all that.
    fn show(&mut self) {
        let decisions = self.decisions.as_ref();
        let shown = self.table.as_ref().map(|table| {
            self.counts.state = State {
                url: table.url(),
                decisions: decisions.map(Decisions::count),
                in_force: self.list.entries(),
                ignored: decisions.map_or(0, Decisions::ignored),
                left_out: decisions.map_or(0, Decisions::left_out),
                answered_seconds_ago: None,
                problem: self.api.problem().or(self.list.problem()).map(ToOwned::to_owned),
            };
            self.counts.in_force = self.list.decisions();
            self.counts.clone()
        });
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }
}

#[cfg(test)]
mod tests;
