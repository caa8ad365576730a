//! The payments of a packet in each of its limits. They are given back if a later limit refuses the packet. They are
//! kept with the CPU, because the stack has no room for them.

use crate::{
    bpf::clock::Clock,
    maps::{buckets::Bucket, levels::Levels, payment::Payment, this_cpu},
    meters::gcra::{refund, refund_level},
};

/// Place of the payments of the source's own limit.
pub const OWN: u32 = 0;
/// Place of the payments of the wider parent.
pub const WIDER: u32 = 1;
/// Place of the payments of the narrower parent, or of the allowance of a soft limit.
pub const LAST: u32 = 2;

/// Returns the payments of both limits in a place.
#[inline(always)]
#[must_use]
pub fn payments(place: u32) -> Option<&'static [Payment; 2]> {
    this_cpu::get().and_then(|cpu| cpu.payments.get(place as usize))
}

/// Records charges of the source's own limits: of level and bucket.
#[inline(always)]
pub fn record(packets: [u64; 2], second: [u64; 2]) {
    if let Some([first, also]) = payments(OWN) {
        first.charge(packets[0], packets[1]);
        also.charge(second[0], second[1]);
    }
}

/// Gives the charges of both limits in a place back.
#[inline(always)]
pub fn give_back(place: u32, levels: &Levels, bucket: Option<&Bucket>, clock: &Clock<'_>) {
    let Some([first, also]) = payments(place) else { return };
    let now = clock.units();
    refund_level(&levels.packets, now, first.level.load());
    refund_level(&levels.second, now, also.level.load());
    if let Some(bucket) = bucket {
        refund(&bucket.packets, now, first.own.load());
        refund(&bucket.second, now, also.own.load());
    }
}
