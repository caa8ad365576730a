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
    buckets::start,
    cells::level,
    maps::{buckets, exchange::Charge, levels::Levels},
    packet::context::Context,
};

/// Writes the reason that the cell gives into the context.
#[inline(always)]
pub fn ask(context: &mut Context, control: &Control, levels: &Levels) {
    let is_paid = charge_whole_burst(context, control, levels);
    context.reason = if is_paid { Reason::WithinLimit } else { Reason::NotAdmitted };
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
    // Another CPU that has created the bucket meanwhile may not have seen this charge. So the packet is refused then, and
    // what it has charged only refuses more.
    level::ask_whole(levels, policy, &context.clock(control), context) == Charge::Paid
        && buckets::find(&key(&context.source)).is_none()
}
