//! What the hosts of a fleet tell each other besides their demand: the sources that they deny.

mod bans;
mod known;
mod lists;
mod once;
pub(super) mod shown;

use std::{path::Path, time::Duration};

use tokio::{sync::watch, task::spawn_blocking, time::sleep};

use self::{bans::Bans, shown::Shown};
use crate::{
    config::daemon::fleet::Fleet,
    controller::notify::journal::{Level, say},
    fleet::engine::Engine,
};

/// Time between two exchanges.
const STEP: Duration = Duration::from_secs(1);

/// The engine, while it answers.
pub(super) type Link = watch::Receiver<Option<Engine>>;

/// Tells and hears, until it is dropped.
pub(super) async fn run(pins: &Path, fleet: &Fleet, link: Link, shown: Shown) {
    let mut bans = Bans::of(pins, fleet, shown);
    loop {
        let engine = link.borrow().clone();
        bans.step(engine.as_ref()).await;
        sleep(STEP).await;
    }
}

/// Deletes what the fleet has told, on a host that is in no fleet any more.
pub(super) async fn forget(pins: &Path) {
    let of_thread = pins.to_owned();
    if let Ok(Err(error)) = spawn_blocking(move || lists::forget(&of_thread)).await {
        say(Level::Warning, &format!("lists of the fleet stay in force: {error}"));
    }
}
