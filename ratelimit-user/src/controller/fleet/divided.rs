//! Bursts that the hosts of a fleet divide: each new source begins with an equal part on each host.

use std::{convert::Infallible, future::pending, time::Duration};

use ratelimit_common::fleet::{lease::EVERY_SOURCE, share::Terms};
use tokio::time::sleep;

use super::{told::maps::Maps, watched::nanoseconds};
use crate::{
    config::daemon::fleet::{Fleet, Limits, Start},
    dataplane::{
        instance::starts,
        leases::{Grant, Leases},
        rules::policies::starts::Starts,
    },
};

/// Time between two looks at the rules.
const LOOK: Duration = Duration::from_secs(1);

/// Returns how policies begin in a fleet.
pub(super) fn of(fleet: &Fleet) -> Starts {
    match (fleet.start, fleet.limits) {
        (Start::Whole, _) => Starts::Whole,
        (Start::Share, _) if !fleet.accepts.limits => Starts::Whole,
        (Start::Share, Limits::Default) => Starts::OfDefault,
        (Start::Share, Limits::All) => Starts::OfAll,
    }
}

/// Makes policies begin so, also those of later rules. After a failure, the next look tries again.
pub(super) async fn keep(maps: &Maps, starts: Starts) -> Infallible {
    let mut generation = None;
    loop {
        let outcome = maps.with(move |pins| starts::put(pins, starts, generation)).await;
        if let Some(Ok(now)) = outcome {
            generation = Some(now);
        }
        if starts == Starts::Whole && generation.is_some() {
            // No later policy begins in another way.
            return pending().await;
        }
        sleep(LOOK).await;
    }
}

/// Tells the program among how many hosts bursts are divided, as long as a lease lasts. Without a place for that, they
/// are whole.
pub(super) fn tell(leases: &Leases, hosts: usize, terms: &Terms, now: u64) {
    let (share, end) = (1.0 / hosts as f64, now + nanoseconds(terms.lease()));
    let _ = leases.grant(&Grant { hash: EVERY_SOURCE, share, end, states: [0; 2] }, now);
}
