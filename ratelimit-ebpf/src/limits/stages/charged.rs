//! The charges of a packet in each of its limits. They are given back if a later limit refuses the packet.

use ratelimit_common::limits::policy::Policy;

use crate::{
    bpf::atomic::Word,
    maps::{
        buckets::Bucket,
        exchange::undo,
        levels::Levels,
        this_cpu::{self, payment::Payment},
    },
};

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
    undo_payment(levels.map(|levels| &levels.packets), bucket.map(|bucket| &bucket.packets), first);
    undo_payment(levels.map(|levels| &levels.second), bucket.map(|bucket| &bucket.second), also);
}

/// Gives the charges of one limit back.
#[inline(always)]
pub fn undo_payment(level: Option<&Word>, own: Option<&Word>, payment: &Payment) {
    if let Some(level) = level {
        undo(level, payment.charged_level.load(), payment.level.load());
    }
    if let Some(own) = own {
        undo(own, payment.charged_own.load(), payment.own.load());
    }
}
