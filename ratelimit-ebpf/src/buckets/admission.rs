//! The admission budget: the number of new buckets per second and CPU. A flood of sources cannot buy more memory.

use ratelimit_common::{
    limits::policy::Policy,
    maps::control::{Control, LANE_SHARE, SAMPLE_SHARE},
    meters::gcra,
};

use crate::{
    bpf::{atomic::Word, settings},
    maps::this_cpu::{self, ThisCpu},
    meters::budget,
};

/// Takes one new bucket for a source of this policy from this CPU's budget. A cost of 0 means that there is no budget.
///
/// Each lane has a smaller budget of its own, so no limit spends the budget of another.
#[inline(always)]
#[must_use]
pub fn admits(control: &Control, policy: &Policy, now: u64) -> bool {
    let lane = policy.lane() as usize;
    if settings::has_lanes() && lane != 0 {
        // All lanes have a state; the comparison is for the verifier.
        return takes(control, now, |cpu| cpu.lanes.get(lane), LANE_SHARE);
    }
    takes(control, now, |cpu| Some(&cpu.admission), 1)
}

/// Takes one new bucket for a record of a source within its limit, from the smaller part of the budget for records.
#[inline(always)]
#[must_use]
pub fn admits_record(control: &Control, now: u64) -> bool {
    takes(control, now, |cpu| Some(&cpu.sampling), SAMPLE_SHARE)
}

#[inline(always)]
fn takes(control: &Control, now: u64, state: impl Fn(&ThisCpu) -> Option<&Word>, times: u64) -> bool {
    let limit = &control.admission;
    let Some(state) = this_cpu::get().and_then(state) else { return false };
    limit.cost != 0 && budget::take(state, gcra::units(now), limit.cost.wrapping_mul(times), limit.burst)
}
