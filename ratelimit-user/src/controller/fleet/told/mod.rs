//! What the hosts of a fleet tell each other besides their demand: the sources that they deny.

mod bans;
mod edit;
mod known;
mod lists;
mod once;
mod planned;
mod rules;
pub(super) mod shown;

use std::{convert::Infallible, path::Path, time::Duration};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use self::{bans::Bans, rules::Rules, shown::Shown};
use crate::{
    config::daemon::fleet::Fleet,
    controller::{
        notify::journal::{Level, say},
        socket::rules::{RulesReply, RulesRequest},
    },
    fleet::engine::Engine,
};

/// Time between two exchanges.
const STEP: Duration = Duration::from_secs(1);

/// The engine, while it answers.
pub(super) type Link = watch::Receiver<Option<Engine>>;

/// A request of an operator, and where its answer goes.
pub(crate) struct Asked {
    pub(crate) request: RulesRequest,
    /// Who asks.
    pub(crate) who: String,
    /// The newest version of the shared rules that a host has in force.
    pub(crate) newest: u64,
    pub(crate) answer: oneshot::Sender<Result<RulesReply, String>>,
}

/// Tells and hears, and does what operators ask for, until it is dropped.
pub(super) async fn run(
    pins: &Path,
    fleet: &Fleet,
    link: Link,
    shown: Shown,
    requests: &mut mpsc::Receiver<Asked>,
) -> Infallible {
    let (mut bans, mut rules) = (Bans::of(pins, fleet, shown.clone()), Rules::of(pins, fleet, shown));
    let mut steps = interval(STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = steps.tick() => {
                let engine = link.borrow().clone();
                bans.step(engine.as_ref()).await;
                rules.step(engine.as_ref()).await;
            }
            Some(Asked { request, who, newest, answer }) = requests.recv() => {
                // Nobody waits for it any more, so nobody would know that it was done.
                if answer.is_closed() {
                    continue;
                }
                let (engine, who) = (link.borrow().clone(), format!("{who} on {}", fleet.name));
                // A command that has ended needs no answer.
                let _ = answer.send(edit::answer(&mut rules, engine.as_ref(), newest, &request, &who).await);
            }
        }
    }
}

/// Deletes what the fleet has told, on a host that is in no fleet any more.
pub(super) async fn forget(pins: &Path) {
    let of_thread = pins.to_owned();
    if let Ok(Err(error)) = spawn_blocking(move || lists::forget(&of_thread)).await {
        say(Level::Warning, &format!("lists of the fleet stay in force: {error}"));
    }
}
