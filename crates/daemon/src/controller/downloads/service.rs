//! The thread that fetches lists, one at a time, while the file has some on servers.

use std::{
    mem,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ratelimit_base::{
    jitter::random,
    notify::journal::{Level, say},
};
use ratelimit_dataplane::lists::entries;
use tokio::sync::Notify;

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
    controller::socket::request::RemoteList,
};

/// The shortest time between two requests for a list, however often operators ask for a reload.
const LEAST: Duration = Duration::from_secs(1);

/// Fetches lists until it is dropped.
#[derive(Default)]
pub struct Service(Arc<Shared>);

/// What is known of the lists that are fetched.
#[derive(Clone, Default)]
pub struct Shown(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Tells the daemon of each new copy.
    fetched: Arc<Notify>,
}

#[derive(Default)]
struct State {
    lists: Vec<List>,
    /// Whether the thread runs. It ends when there are no lists.
    is_running: bool,
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
    /// Whether the outcome of the last request is known.
    is_known: bool,
}

/// What an answer of a server has changed.
struct News {
    kept: Kept,
    /// Whether the copy is new. It was the list of another address before, or could not be used.
    is_new: bool,
    /// The lines of the server that are left out, in words.
    skipped: Option<String>,
}

/// What the file says about a list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    name: String,
    copy: PathBuf,
    remote: Remote,
    may_shrink: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Returns what shows the lists.
    pub fn shown(&self) -> Shown {
        Shown(Arc::clone(&self.0))
    }

    /// Returns what wakes up when a copy is new, and the file is to be read again. A report that nobody waits for is kept.
    pub fn fetched(&self) -> Arc<Notify> {
        Arc::clone(&self.0.fetched)
    }

    /// Fetches these lists from now on, and no others.
    pub fn follow(&self, planned: &[PlannedList]) {
        let mut state = self.0.lock();
        let mut before = mem::take(&mut state.lists);
        let list = |wanted: Wanted| match before.iter().position(|list| list.wanted == wanted) {
            Some(known) => before.swap_remove(known),
            None => {
                // The operator has probably mended what made the request fail.
                let has_failed = before.iter().any(|list| list.wanted.name == wanted.name && list.failure.is_some());
                List::new(wanted, has_failed)
            }
        };
        state.lists = planned.iter().filter_map(wanted).map(list).collect();
        if !state.lists.is_empty() && !state.is_running {
            let shared = Arc::clone(&self.0);
            let started = thread::Builder::new().name("lists".to_owned()).spawn(move || run(&shared));
            state.is_running = started.is_ok();
            if let Err(error) = started {
                say(Level::Error, &format!("lists on servers are not fetched before the next reload: {error}"));
            }
        }
        drop(state);
        self.0.changed.notify_all();
    }

    /// Fetches all lists now, because an operator asks for it. Returns them as they are before.
    pub fn fetch_now(&self) -> Vec<RemoteList> {
        for list in &mut self.0.lock().lists {
            list.due = list.asked.map_or_else(Instant::now, |asked| asked + LEAST);
        }
        self.0.changed.notify_all();
        self.lists()
    }

    /// Returns each list.
    pub fn lists(&self) -> Vec<RemoteList> {
        self.shown().lists()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.0.lock().lists.clear();
        self.0.changed.notify_all();
    }
}

impl Shown {
    /// Returns each list.
    pub fn lists(&self) -> Vec<RemoteList> {
        let of = |list: &List| RemoteList {
            name: list.wanted.name.clone(),
            url: list.wanted.remote.address.to_string(),
            changed_at: list.kept.as_ref().map(|kept| kept.changed_at),
            checked_at: list.kept.as_ref().map(|kept| kept.checked_at),
            failure: list.failure.clone(),
            is_known: list.is_known,
        };
        self.0.lock().lists.iter().map(of).collect()
    }
}

fn wanted(list: &PlannedList) -> Option<Wanted> {
    let PlannedList { name, file, remote, may_shrink, .. } = list;
    Some(Wanted { name: name.clone(), copy: file.clone(), remote: remote.clone()?, may_shrink: *may_shrink })
}

impl List {
    fn new(wanted: Wanted, has_failed: bool) -> Self {
        let kept = known(&wanted);
        let age = kept.as_ref().and_then(|kept| Timestamp::now().duration_since(kept.checked_at).try_into().ok());
        let wait = if has_failed { Duration::ZERO } else { schedule::first(wanted.remote.every, age, random()) };
        let (due, is_known) = (Instant::now() + wait, !wait.is_zero());
        Self { wanted, kept, due, asked: None, failures: 0, failure: None, is_known }
    }

    /// Records an outcome, and reports what is new.
    fn record(&mut self, outcome: Result<News, String>, now: Instant) {
        let Wanted { name, remote, .. } = &self.wanted;
        self.is_known = true;
        match outcome {
            Ok(News { kept, is_new, skipped }) => {
                if let Some(skipped) = skipped.filter(|_| is_new) {
                    say(Level::Warning, &format!("list {name}: {}: {skipped}", remote.address));
                }
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

/// Returns what is known of the copy of a list. None without a copy that can be used.
fn known(wanted: &Wanted) -> Option<Kept> {
    let Wanted { copy, remote, .. } = wanted;
    Kept::with_copy(copy, remote.address.as_str(), remote.entries).map(|(kept, _)| kept).ok()
}

fn run(shared: &Shared) {
    while let Some(wanted) = next(shared) {
        let outcome = fetch(&wanted);
        let is_new = outcome.as_ref().is_ok_and(|news| news.is_new);
        let mut state = shared.lock();
        // The file may have changed meanwhile.
        if let Some(list) = state.lists.iter_mut().find(|list| list.wanted == wanted) {
            list.record(outcome, Instant::now());
        }
        drop(state);
        if is_new {
            shared.fetched.notify_one();
        }
    }
}

/// Waits until a list is due. None without lists.
fn next(shared: &Shared) -> Option<Wanted> {
    let mut state = shared.lock();
    loop {
        let now = Instant::now();
        let Some(list) = state.lists.iter_mut().min_by_key(|list| list.due) else {
            state.is_running = false;
            return None;
        };
        if list.due <= now {
            list.asked = Some(now);
            return Some(list.wanted.clone());
        }
        let wait = list.due - now;
        state = shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Fetches a list, and keeps it.
fn fetch(wanted: &Wanted) -> Result<News, String> {
    let Wanted { copy, remote, may_shrink, .. } = wanted;
    let known = known(wanted);
    match parent::fetch(remote, known.as_ref())? {
        Fetched::Unchanged => {
            let why = || "the server says that nothing has changed, but there is no copy".to_owned();
            let kept = Kept { checked_at: Timestamp::now(), ..known.ok_or_else(why)? };
            copy::keep(copy, None, &kept)?;
            Ok(News { kept, is_new: false, skipped: None })
        }
        Fetched::List { list, etag, last_modified, skipped } => {
            let count = judge::check(&list, remote.entries)?;
            let before = known.as_ref().map_or(0, |known| known.entries);
            if let Some(fall) = entries::fall(before, count).filter(|_| !may_shrink) {
                return Err(format!("the list {fall}: if this is right, add may-shrink = true"));
            }
            let (bytes, sha256) = Kept::digest(&list);
            let same = known.filter(|known| (known.bytes, known.sha256) == (bytes, sha256));
            let (is_new, now) = (same.is_none(), Timestamp::now());
            let (url, changed_at) = (remote.address.as_str().to_owned(), same.map_or(now, |same| same.changed_at));
            let kept = Kept { url, etag, last_modified, changed_at, checked_at: now, entries: count, bytes, sha256 };
            copy::keep(copy, Some(&*list).filter(|_| is_new), &kept)?;
            Ok(News { kept, is_new, skipped })
        }
    }
}
