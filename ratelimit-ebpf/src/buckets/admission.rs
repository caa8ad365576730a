//! Which sources get a bucket of their own: so many a second and CPU, so that a flood of sources buys no memory.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::source::Source,
    maps::control::{Control, SAMPLE_SHARE},
    meters::gcra,
};

use crate::{
    bpf::{
        atomic::Word,
        verifier::{given, key},
    },
    maps::{
        all::BUCKETS,
        this_cpu::{self, Own},
    },
    meters::token_bucket::Tracked,
};

/// Whether this CPU may make one more bucket. A cost of 0 is no budget.
#[inline(always)]
#[must_use]
pub fn admits(control: &Control, now: u64) -> bool {
    takes(control, now, |own| &own.admission, 1)
}

/// The same for a record of a source that exceeds nothing, within the smaller part of the budget that records may use.
#[inline(always)]
#[must_use]
pub fn admits_record(control: &Control, now: u64) -> bool {
    takes(control, now, |own| &own.sampling, SAMPLE_SHARE)
}

#[inline(always)]
fn takes(control: &Control, now: u64, state: impl Fn(&Own) -> &Word, times: u64) -> bool {
    let budget = &control.admission;
    let Some(own) = this_cpu::own() else { return false };
    budget.cost != 0 && this_cpu::take(state(own), gcra::units(now), budget.cost.wrapping_mul(times), budget.capacity)
}

/// Puts a bucket into the map, unless another CPU was first: whatever the insert says, what counts is the bucket that is there.
#[inline(always)]
pub fn make(source: &Source, packets: u64, second: u64, resolution: Resolution) {
    make_bucket(source, packets, second, resolution.0);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn make_bucket(source: *const Source, packets: u64, second: u64, resolution: u64) -> u32 {
    let Some(source) = given(source) else { return 0 };
    let outcome = BUCKETS.insert(key(source), Tracked::new(packets, second, resolution), u64::from(BPF_NOEXIST));
    if let Some(own) = this_cpu::own() {
        let count = if outcome.is_ok() { &own.admitted } else { &own.failed };
        count.increment();
    }
    0
}
