//! Asks the cell for the whole burst, while the budget admits no bucket for a source that has none.
//!
//! The level counts all that a source was admitted, and a new bucket would owe what it shows above the cell's share. So
//! the cell decides as cell and bucket would. A flood that spends the budget takes nothing from a source that is alone
//! in its cell.

use ratelimit_common::{maps::control::Control, reason::Reason};

use crate::{
    bpf::{
        settings,
        verifier::{given, key},
    },
    buckets::handover,
    cells::level,
    maps::{buckets, exchange::Charge, levels::Levels},
    packet::context::Context,
};

/// Returns the reason for a packet of a source without a bucket. Where hosts of a fleet divide a burst, the cell had the
/// part of this one already.
#[inline(always)]
#[must_use]
pub fn ask(context: &Context, control: &Control, levels: &Levels) -> Reason {
    let is_paid = !settings::divides_bursts() && charge_whole_burst(context, control, levels);
    if is_paid { Reason::WithinLimit } else { Reason::NotAdmitted }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_whole_burst(context: *const Context, control: *const Control, levels: *const Levels) -> bool {
    if settings::divides_bursts() || !settings::has_cells() {
        return false;
    }
    let (Some(context), Some(control), Some(levels)) = (given(context), given(control), given(levels)) else {
        return false;
    };
    let Some(policy) = context.policy() else { return false };
    let clock = context.clock(control);
    if level::ask_whole(levels, policy, &clock, context) == Charge::Refused {
        return false;
    }
    // If another CPU has created the bucket since it was looked for, it owes this packet too.
    if let Some(bucket) = buckets::find(&key(&context.source)) {
        handover::raise(bucket, levels, policy, &clock);
    }
    true
}
