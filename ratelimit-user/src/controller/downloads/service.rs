//! The thread that fetches lists, one at a time.

use std::{
    mem,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use jiff::Timestamp;

use super::{
    copy, judge,
    parent::{self, Fetched},
    schedule,
};
use crate::{
    config::{
        PlannedList,
        daemon::{kept::Kept, remote::Remote},
    },
    controller::{
        notify::journal::{Level, say},
        socket::request::RemoteList,
    },
    wire::random,
};

/// The shortest time between two requests for a list, however often operators ask for a reload.
const LEAST: Duration = Duration::from_secs(1);

/// Fetches lists until it is dropped.
pub(crate) struct Service(Arc<Shared>);

/// What is known of the lists that are fetched.
#[derive(Clone, Default)]
pub(crate) struct Shown(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lists: Vec<List>,
    has_ended: bool,
}

/// A list, and what its server has said last.
struct List {
    wanted: Wanted,
    kept: Option<Kept>,
    due: Instant,
    /// When it was asked for last.
    asked: Option<Instant>,
    failures: u32,
    failure: Option<String>,
}

/// What the file says about a list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    name: String,
    copy: PathBuf,
    remote: Remote,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Starts the thread, which has no lists yet.
    pub(crate) fn start() -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("lists".to_owned()).spawn(move || run(&of_thread))?;
        Ok(Self(shared))
    }

    /// Returns what shows the lists.
    pub(crate) fn shown(&self) -> Shown {
        Shown(Arc::clone(&self.0))
    }

    /// Fetches these lists from now on, and no others.
    pub(crate) fn follow(&self, planned: &[PlannedList]) {
        let mut state = self.0.lock();
        let mut before = mem::take(&mut state.lists);
        let list = |wanted| match before.iter().position(|list| list.wanted == wanted) {
            Some(known) => before.swap_remove(known),
            None => List::new(wanted),
        };
        state.lists = planned.iter().filter_map(wanted).map(list).collect();
        drop(state);
        self.0.changed.notify_all();
    }

    /// Fetches all lists now, because an operator asks for it. Returns them as they are before.
    pub(crate) fn fetch_now(&self) -> Vec<RemoteList> {
        for list in &mut self.0.lock().lists {
            list.due = list.asked.map_or_else(Instant::now, |asked| asked + LEAST);
        }
        self.0.changed.notify_all();
        self.lists()
    }

    /// Returns each list.
    pub(crate) fn lists(&self) -> Vec<RemoteList> {
        self.shown().lists()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

impl Shown {
    /// Returns each list.
    pub(crate) fn lists(&self) -> Vec<RemoteList> {
        let of = |list: &List| RemoteList {
            name: list.wanted.name.clone(),
            url: list.wanted.remote.address.to_string(),
            changed_at: list.kept.as_ref().map(|kept| kept.changed_at),
            checked_at: list.kept.as_ref().map(|kept| kept.checked_at),
            failure: list.failure.clone(),
        };
        self.0.lock().lists.iter().map(of).collect()
    }
}

fn wanted(list: &PlannedList) -> Option<Wanted> {
    let PlannedList { name, file, remote, .. } = list;
    Some(Wanted { name: name.clone(), copy: file.clone(), remote: remote.clone()? })
}

impl List {
    fn new(wanted: Wanted) -> Self {
        // The daemon watches the folder as soon as the file is in force. A failure is reported with the first copy.
        let _ = copy::make_folder(&wanted.copy);
        let kept = known(&wanted);
        let age = kept.as_ref().and_then(|kept| Timestamp::now().duration_since(kept.checked_at).try_into().ok());
        let due = Instant::now() + schedule::first(wanted.remote.every, age, random());
        Self { wanted, kept, due, asked: None, failures: 0, failure: None }
    }

    /// Records an outcome, and reports what is new.
    fn record(&mut self, outcome: Result<Kept, String>, now: Instant) {
        let Wanted { name, remote, .. } = &self.wanted;
        match outcome {
            Ok(kept) => {
                if self.failure.take().is_some() {
                    say(Level::Info, &format!("list {name}: {} is fetched again", remote.address));
                }
                (self.kept, self.failures) = (Some(kept), 0);
            }
            Err(why) => {
                if self.failure.as_ref() != Some(&why) {
                    let state = if self.kept.is_some() { "the last copy stays in use" } else { "there is no copy" };
                    say(Level::Warning, &format!("list {name}: {} is not fetched, {state}: {why}", remote.address));
                }
                self.failure = Some(why);
                self.failures = self.failures.saturating_add(1);
            }
        }
        self.due = now + schedule::pause(remote.every, self.failures, random());
    }
}

/// Returns what is known of the copy of a list. None without a copy of this address.
fn known(wanted: &Wanted) -> Option<Kept> {
    Kept::of(&wanted.copy, wanted.remote.address.as_str()).filter(|_| wanted.copy.is_file())
}

fn run(shared: &Shared) {
    while let Some(wanted) = next(shared) {
        let outcome = fetch(&wanted);
        let mut state = shared.lock();
        // The file may have changed meanwhile.
        if let Some(list) = state.lists.iter_mut().find(|list| list.wanted == wanted) {
            list.record(outcome, Instant::now());
        }
    }
}

/// Waits until a list is due, and returns it. None at the end.
fn next(shared: &Shared) -> Option<Wanted> {
    let mut state = shared.lock();
    loop {
        if state.has_ended {
            return None;
        }
        let now = Instant::now();
        let first = state.lists.iter_mut().min_by_key(|list| list.due);
        state = match first {
            Some(list) if list.due <= now => {
                list.asked = Some(now);
                return Some(list.wanted.clone());
            }
            Some(list) => {
                let wait = list.due - now;
                shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
            }
            None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

/// Fetches a list, and keeps it. Returns what is known of the copy then.
fn fetch(wanted: &Wanted) -> Result<Kept, String> {
    let Wanted { copy, remote, .. } = wanted;
    let known = known(wanted);
    match parent::fetch(remote, known.as_ref())? {
        Fetched::Unchanged => {
            let known = known.ok_or("the server says that nothing has changed, but there is no copy")?;
            let kept = Kept { checked_at: Timestamp::now(), ..known };
            copy::keep(copy, None, &kept)?;
            Ok(kept)
        }
        Fetched::List { body, etag, last_modified } => {
            judge::judge(&body, remote.entries)?;
            let same = known.filter(|_| copy::is_same(copy, &body)).map(|known| known.changed_at);
            let (url, now) = (remote.address.as_str().to_owned(), Timestamp::now());
            let kept = Kept { url, etag, last_modified, changed_at: same.unwrap_or(now), checked_at: now };
            copy::keep(copy, Some(&body), &kept)?;
            Ok(kept)
        }
    }
}
