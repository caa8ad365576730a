//! The admission budget: the number of new buckets per second and CPU. A flood of sources cannot buy more memory.

use ratelimit_common::{
    maps::control::{Control, SAMPLE_SHARE},
    meters::gcra,
};

use crate::{
    bpf::atomic::Word,
    maps::this_cpu::{self, ThisCpu},
    meters::budget,
};

/// Takes one new bucket from this CPU's budget. A cost of 0 means that there is no budget.
#[inline(always)]
#[must_use]
pub fn admits(control: &Control, now: u64) -> bool {
    takes(control, now, |cpu| &cpu.admission, 1)
}

/// Takes one new bucket for a record of a source within its limit, from the smaller part of the budget for records.
#[inline(always)]
#[must_use]
pub fn admits_record(control: &Control, now: u64) -> bool {
    takes(control, now, |cpu| &cpu.sampling, SAMPLE_SHARE)
}

#[inline(always)]
fn takes(control: &Control, now: u64, state: impl Fn(&ThisCpu) -> &Word, times: u64) -> bool {
    let limit = &control.admission;
    let Some(cpu) = this_cpu::get() else { return false };
    limit.cost != 0 && budget::take(state(cpu), gcra::units(now), limit.cost.wrapping_mul(times), limit.burst)
}
