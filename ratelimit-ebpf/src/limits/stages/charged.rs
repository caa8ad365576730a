//! The charges of a packet in each of its limits. They are given back if a later limit refuses the packet.

use ratelimit_common::limits::policy::Policy;

use crate::maps::{buckets::Bucket, exchange::undo, levels::Levels, this_cpu};

/// Records that nothing is charged in a place.
#[inline(always)]
pub fn clear(place: u32) {
    if let Some([first, also]) = this_cpu::payments(place) {
        first.clear();
        also.clear();
    }
}

/// Records the states of a bucket that both limits of a policy have charged, without cells.
#[inline(always)]
pub fn record(place: u32, policy: &Policy, [one, amount]: [u32; 2], charged: [u64; 2]) {
    if let Some([first, also]) = this_cpu::payments(place) {
        let Policy { packets, second, .. } = policy;
        first.record_own(if packets.is_on() { packets.cost_of(one) } else { 0 }, charged[0]);
        also.record_own(if second.is_on() { second.cost_of(amount) } else { 0 }, charged[1]);
    }
}

/// Gives the charges of both limits in a place back.
#[inline(always)]
pub fn give_back(place: u32, levels: Option<&Levels>, bucket: Option<&Bucket>) {
    let Some([first, also]) = this_cpu::payments(place) else { return };
    if let Some(levels) = levels {
        undo(&levels.packets, first.charged_level.load(), first.level.load());
        undo(&levels.second, also.charged_level.load(), also.level.load());
    }
    if let Some(bucket) = bucket {
        undo(&bucket.packets, first.charged_own.load(), first.own.load());
        undo(&bucket.second, also.charged_own.load(), also.own.load());
    }
}
