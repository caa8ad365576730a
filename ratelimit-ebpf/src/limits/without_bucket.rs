//! Asks the cell for the whole burst, while the budget admits no bucket for a source that has none.
//!
//! The level counts all that a source was admitted, and a new bucket would owe what it shows above the cell's share. So
//! the cell decides as cell and bucket would. A flood that spends the budget takes nothing from a source that is alone
//! in its cell.

use ratelimit_common::maps::control::Control;

use crate::{
    bpf::{
        settings,
        verifier::{given, key},
    },
    buckets::{handover, start},
    cells::level,
    maps::{buckets, exchange::Charge, levels::Levels},
    packet::context::Context,
};

/// Returns whether the cell admits a packet of a source without a bucket.
#[inline(always)]
#[must_use]
pub fn admits(context: &Context, control: &Control, levels: &Levels) -> bool {
    charge_whole_burst(context, control, levels)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_whole_burst(context: *const Context, control: *const Control, levels: *const Levels) -> bool {
    if !settings::has_cells() {
        return false;
    }
    let (Some(context), Some(control), Some(levels)) = (given(context), given(control), given(levels)) else {
        return false;
    };
    let Some(policy) = context.policy() else { return false };
    // Where hosts of a fleet divide the burst, the cell had the part of this one already.
    if settings::divides_bursts() && start::is_divided(context, control) {
        return false;
    }
    let clock = context.clock(control);
    if level::ask_whole(levels, policy, &clock, context) == Charge::Refused {
        return false;
    }
    // If another CPU has created the bucket since it was looked for, it owes this packet too.
    if let Some(bucket) = buckets::find(&key(&context.source)) {
        handover::owe(bucket, policy, &clock, context.amounts(policy));
    }
    true
}
