//! Bursts that the hosts of a fleet divide: each new source begins with an equal part on each host.

use ratelimit_common::fleet::{lease::EVERY_SOURCE, share::Terms};
use ratelimit_dataplane::leases::{Grant, Leases};

use super::watched::nanoseconds;

/// Tells the program which part of its burst a source has here, as long as a lease lasts. Without a place for that, bursts
/// are whole.
pub(super) fn tell(leases: &Leases, share: f64, terms: &Terms, now: u64) {
    let end = now + nanoseconds(terms.lease());
    let _ = leases.grant(&Grant { hash: EVERY_SOURCE, share, end, states: [0; 2] }, now);
}
