//! The thread that takes part in a fleet while the file has one, and changes of its settings.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use ratelimit_base::notify::journal::{Level, say};
use ratelimit_fleet::table::Fleet;
use ratelimit_protocol::fleet::{Member, Status};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

pub use super::host::Shown;
use super::{
    host::Host,
    told::{self, Asked, claim::Claim, maps::Maps},
};
use crate::controller::{
    socket::rules::{RulesReply, RulesRequest},
    stops,
};

/// The longest time for a request.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The answer if that does not suffice.
const SLOW: &str = "no answer in time: `ratelimit fleet rules log` shows whether the change was made";

/// The answer on a host without a fleet.
pub const NO_FLEET: &str = "this host is in no fleet: add the table [fleet] with an engine to the file of the daemon";

/// The fleet of the file.
type Wanted = Option<Box<Fleet>>;

/// Takes part in the fleet of the file, until it is dropped.
pub struct Service {
    host: ThisHost,
    /// None before the first file.
    wanted: Option<Wanted>,
    thread: Option<Thread>,
}

/// What each thread of this host works with.
#[derive(Clone)]
struct ThisHost {
    pins: PathBuf,
    /// Work that an earlier fleet has begun ends before that of a later one.
    maps: Maps,
    stops: stops::Desk,
    desk: Desk,
}

/// A thread, which ends when there is no fleet and nothing is left of one.
struct Thread {
    fleet: watch::Sender<Wanted>,
    has_ended: Arc<Mutex<bool>>,
    handle: thread::JoinHandle<()>,
}

impl Service {
    /// Returns a service without a fleet.
    pub fn of(pins: &Path, stops: stops::Desk) -> Self {
        let host = ThisHost { pins: pins.to_owned(), maps: Maps::of(pins), stops, desk: Desk::default() };
        Self { host, wanted: None, thread: None }
    }

    /// Takes part in this fleet from now on. Without one, deletes what a fleet has told, also an earlier daemon.
    pub fn join(&mut self, fleet: Option<Fleet>) {
        let wanted = fleet.map(Box::new);
        if self.wanted.as_ref() == Some(&wanted) {
            return;
        }
        self.wanted = Some(wanted.clone());
        if let Some(thread) = &self.thread {
            let has_ended = thread.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
            if !*has_ended {
                thread.fleet.send_replace(wanted);
                return;
            }
        }
        match Thread::start(self.host.clone(), wanted) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                self.wanted = None;
                say(Level::Error, &format!("fleet: the next reload tries again: {error}"));
            }
        }
    }

    /// Returns what the host knows of its fleet. None without one.
    pub fn status(&self) -> Option<Status> {
        self.host.desk.status()
    }

    /// Returns where operators ask.
    pub fn desk(&self) -> Desk {
        self.host.desk.clone()
    }

    /// Returns the place of the status, for other threads.
    pub fn shown(&self) -> Shown {
        Arc::clone(&self.host.desk.shown)
    }
}

/// Where operators ask about the shared rules. Copies ask the same fleet.
#[derive(Clone, Default)]
pub struct Desk {
    shown: Shown,
    /// None without a thread that answers.
    requests: Arc<Mutex<Option<mpsc::Sender<Asked>>>>,
}

impl Desk {
    fn requests(&self) -> MutexGuard<'_, Option<mpsc::Sender<Asked>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Option<Status> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does something with the shared rules, on behalf of this operator.
    ///
    /// # Errors
    ///
    /// Fails with the reason in words, which tells whether something can have changed.
    pub async fn ask(&self, request: RulesRequest, who: String) -> Result<RulesReply, String> {
        let requests = self.requests().clone();
        let Some((status, requests)) = self.status().zip(requests) else { return Err(NO_FLEET.to_owned()) };
        let claim = |member: &Member| Some(Claim { version: member.about.rules?, host: member.name().to_owned() });
        let claims = status.members.iter().filter_map(claim);
        let newest = claims.max_by_key(|claim| claim.version).unwrap_or_default();
        let (answer, answered) = oneshot::channel();
        let asked = async {
            requests.send(Asked { request, who, newest, answer }).await.ok()?;
            answered.await.ok()
        };
        timeout(PATIENCE, asked).await.ok().flatten().unwrap_or_else(|| Err(SLOW.to_owned()))
    }
}

impl Drop for Service {
    /// Waits until the host has left the fleet, which takes no longer than one call.
    fn drop(&mut self) {
        if let Some(Thread { fleet, handle, .. }) = self.thread.take() {
            // The thread ends with the sender.
            drop(fleet);
            let _ = handle.join();
        }
    }
}

impl Thread {
    fn start(host: ThisHost, wanted: Wanted) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ((fleet, changes), (requests, asked)) = (watch::channel(wanted), mpsc::channel(1));
        let has_ended = Arc::default();
        let of_thread = Arc::clone(&has_ended);
        *host.desk.requests() = Some(requests);
        let run = move || {
            runtime.block_on(follow(&host, changes, asked, &of_thread));
            // A name that is still being resolved must not keep the thread.
            runtime.shutdown_background();
        };
        let handle = thread::Builder::new().name("fleet".to_owned()).spawn(run)?;
        Ok(Self { fleet, has_ended, handle })
    }
}

async fn follow(
    ThisHost { pins, maps, stops, desk }: &ThisHost,
    mut changes: watch::Receiver<Wanted>,
    mut asked: mpsc::Receiver<Asked>,
    has_ended: &Mutex<bool>,
) {
    loop {
        let wanted = changes.borrow_and_update().clone();
        let Some(fleet) = wanted else {
            tokio::select! {
                () = told::forget(maps) => {
                    let mut has_ended = has_ended.lock().unwrap_or_else(PoisonError::into_inner);
                    // Changes are sent under this lock, so none gets lost.
                    if !changes.has_changed().unwrap_or(false) {
                        *desk.requests() = None;
                        *has_ended = true;
                        return;
                    }
                }
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
            continue;
        };
        let told = told::shown::Shown::default();
        let mut host = Host::new(pins, (*fleet).clone(), Arc::clone(&desk.shown), told.clone());
        let told = told::run(maps, &fleet, host.link(), told, stops, &mut asked);
        let is_over = tokio::select! {
            () = host.run() => true,
            never = told => match never {},
            changed = changes.changed() => changed.is_err(),
        };
        host.leave().await;
        if is_over {
            return;
        }
    }
}
