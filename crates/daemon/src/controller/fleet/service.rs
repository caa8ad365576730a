//! The thread that takes part in a fleet, and changes of its settings.

use std::{
    convert::Infallible,
    future::pending,
    path::Path,
    sync::{Arc, PoisonError},
    thread,
    time::Duration,
};

use anyhow::Result;
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
#[derive(Clone, PartialEq)]
enum Wanted {
    /// The file was not read yet.
    Unknown,
    /// There is none.
    None,
    /// It is this one.
    One(Box<Fleet>),
}

/// Takes part in the fleet of the file, until it is dropped.
pub struct Service {
    fleet: watch::Sender<Wanted>,
    desk: Desk,
    thread: Option<thread::JoinHandle<()>>,
}

impl Service {
    /// Starts without a fleet.
    pub fn start(pins: &Path, stops: stops::Desk) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (fleet, changes) = watch::channel(Wanted::Unknown);
        let (requests, asked) = mpsc::channel(1);
        let shown = Shown::default();
        let (pins, of_thread) = (pins.to_owned(), Arc::clone(&shown));
        let follow = move || {
            runtime.block_on(follow(&pins, &stops, changes, asked, of_thread));
            // A name that is still being resolved must not keep the thread.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("fleet".to_owned()).spawn(follow)?;
        Ok(Self { fleet, desk: Desk { shown, requests }, thread: Some(thread) })
    }

    /// Takes part in this fleet from now on.
    pub fn join(&self, fleet: Option<Fleet>) {
        let wanted = fleet.map_or(Wanted::None, |fleet| Wanted::One(Box::new(fleet)));
        self.fleet.send_if_modified(|current| {
            let is_other = *current != wanted;
            *current = wanted;
            is_other
        });
    }

    /// Returns what the host knows of its fleet. None without one.
    pub fn status(&self) -> Option<Status> {
        self.desk.status()
    }

    /// Returns where operators ask.
    pub fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Returns the place of the status, for other threads.
    pub fn shown(&self) -> Shown {
        Arc::clone(&self.desk.shown)
    }
}

/// Where operators ask about the shared rules. Copies ask the same fleet.
#[derive(Clone)]
pub struct Desk {
    shown: Shown,
    requests: mpsc::Sender<Asked>,
}

impl Desk {
    fn status(&self) -> Option<Status> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does something with the shared rules, on behalf of this operator.
    ///
    /// # Errors
    ///
    /// Fails with the reason in words, which tells whether something can have changed.
    pub async fn ask(&self, request: RulesRequest, who: String) -> Result<RulesReply, String> {
        let Some(status) = self.status() else { return Err(NO_FLEET.to_owned()) };
        let claim = |member: &Member| Some(Claim { version: member.about.rules?, host: member.name().to_owned() });
        let claims = status.members.iter().filter_map(claim);
        let newest = claims.max_by_key(|claim| claim.version).unwrap_or_default();
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.requests.send(Asked { request, who, newest, answer }).await.ok()?;
            answered.await.ok()
        };
        timeout(PATIENCE, asked).await.ok().flatten().unwrap_or_else(|| Err(SLOW.to_owned()))
    }
}

impl Drop for Service {
    /// Waits until the host has left the fleet, which takes no longer than one call.
    fn drop(&mut self) {
        // The thread ends with the sender.
        self.fleet = watch::channel(Wanted::Unknown).0;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn follow(
    pins: &Path,
    stops: &stops::Desk,
    mut changes: watch::Receiver<Wanted>,
    mut asked: mpsc::Receiver<Asked>,
    shown: Shown,
) {
    // Work that an earlier fleet has begun ends before that of a later one.
    let maps = Maps::of(pins);
    loop {
        let wanted = changes.borrow_and_update().clone();
        let Wanted::One(fleet) = wanted else {
            let forget = async {
                if wanted == Wanted::None {
                    told::forget(&maps).await;
                }
                pending::<Infallible>().await
            };
            let changed = tokio::select! {
                never = forget => match never {},
                changed = changes.changed() => changed,
            };
            match changed {
                Ok(()) => continue,
                Err(_) => return,
            }
        };
        let told = told::shown::Shown::default();
        let mut host = Host::new(pins, (*fleet).clone(), Arc::clone(&shown), told.clone());
        let told = told::run(&maps, &fleet, host.link(), told, stops, &mut asked);
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
