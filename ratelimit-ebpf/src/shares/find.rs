//! Finds the lease of a packet's source.

use ratelimit_common::maps::control::Control;

use crate::{
    bpf::settings,
    maps::leases::{self, Lease},
    packet::context::Context,
};

/// Returns the lease that holds for the source of the context.
#[inline(always)]
#[must_use]
pub(super) fn of(context: &Context, control: &Control) -> Option<&'static Lease> {
    leases::find(hash(context, control), context.tick)
}

/// Returns the hash of the context's source. Without cells, the context has none.
#[inline(always)]
#[must_use]
pub(super) fn hash(context: &Context, control: &Control) -> u64 {
    if settings::has_cells() { context.hash } else { context.source.hash(&control.seed) }
}
