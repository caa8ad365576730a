//! What the hosts of a fleet tell each other besides their demand: the sources that they deny, the
//! clients that they limit for applications, and shared rules.

mod again;
mod bans;
pub(super) mod claim;
mod edit;
mod known;
pub(super) mod maps;
mod numbered;
mod once;
mod own_name;
mod planned;
mod rules;
pub(super) mod shown;
mod stops;

use std::{convert::Infallible, time::Duration};

use ratelimit_common::rules::rule::FLEET;
use ratelimit_fleet::{engine::Engine, table::Fleet};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{MissedTickBehavior, interval, sleep},
};

use self::{bans::Bans, claim::Claim, maps::Maps, once::Once, rules::Rules, shown::Shown, stops::Stops};
use crate::controller::{
    lists_of_others,
    socket::rules::{RulesReply, RulesRequest},
    stops::Desk,
};

/// Time between two exchanges.
const STEP: Duration = Duration::from_secs(1);
/// Time between two tries to delete what the fleet has told.
const PAUSE: Duration = Duration::from_secs(5);

/// The engine, while it answers.
pub(super) type Link = watch::Receiver<Option<Engine>>;

/// A request of an operator, and where its answer goes.
pub(super) struct Asked {
    pub request: RulesRequest,
    /// Who asks.
    pub who: String,
    /// The newest version of the shared rules that a host says it has in force.
    pub newest: Claim,
    pub answer: oneshot::Sender<Result<RulesReply, String>>,
}

/// Tells and hears, and does what operators ask for, until it is dropped.
pub(super) async fn run(
    maps: &Maps,
    fleet: &Fleet,
    link: Link,
    shown: Shown,
    desk: &Desk,
    requests: &mut mpsc::Receiver<Asked>,
) -> Infallible {
    let (mut bans, mut rules) = (Bans::of(maps, fleet, shown.clone()), Rules::of(maps, fleet, shown));
    let mut stops = Stops::of(maps.pins(), fleet, own_name::own_name(&fleet.name, maps.pins()), desk);
    let mut steps = interval(STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = steps.tick() => {
                let engine = link.borrow().clone();
                stops.step(engine.as_ref()).await;
                bans.step(engine.as_ref()).await;
                rules.step(engine.as_ref()).await;
            }
            () = stops.due() => {
                let engine = link.borrow().clone();
                stops.step(engine.as_ref()).await;
            }
            Some(Asked { request, who, newest, answer }) = requests.recv() => {
                // Nobody waits for it any more, so nobody would know that it was done.
                if answer.is_closed() {
                    continue;
                }
                let (engine, who) = (link.borrow().clone(), format!("{who} on {}", fleet.name));
                // A command that has ended needs no answer.
                let _ = answer.send(edit::answer(&mut rules, engine.as_ref(), &newest, &request, &who).await);
            }
        }
    }
}

/// Deletes what the fleet has told, on a host that is in no fleet any more. It tries until that is done.
pub(super) async fn forget(maps: &Maps) {
    forget_each(maps, PAUSE).await;
}

async fn forget_each(maps: &Maps, pause: Duration) {
    let mut told = Once::after(1, maps.pins());
    while let Err(error) =
        maps.with(|pins| lists_of_others::forget(pins, FLEET)).await.unwrap_or_else(|| Err(maps.gone()))
    {
        told.fail(|| format!("lists of the fleet stay in force, which this host has left: {error}"));
        sleep(pause).await;
    }
    told.succeed("the lists of the fleet are deleted");
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt as _,
        pin::pin,
    };

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_host_that_leaves_tries_to_delete_its_lists_until_that_succeeds() {
        let pins = std::env::temp_dir().join(format!("ratelimit-forget-{}", std::process::id()));
        fs::create_dir(&pins).unwrap();
        let open_to = |mode| fs::set_permissions(&pins, Permissions::from_mode(mode)).unwrap();
        // Pins that others can change are not touched.
        open_to(0o777);
        let maps = Maps::of(&pins);
        let mut forget = pin!(forget_each(&maps, Duration::from_millis(1)));
        assert!(timeout(Duration::from_millis(50), &mut forget).await.is_err());
        open_to(0o700);
        let outcome = timeout(Duration::from_secs(30), forget).await;
        fs::remove_dir(&pins).unwrap();
        outcome.unwrap();
    }
}
