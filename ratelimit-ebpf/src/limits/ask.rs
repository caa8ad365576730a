//! Asks all limits of a policy: the source's own, and its parents.

use ratelimit_common::{limits::policy::Policy, maps::control::Control, reason::Reason};

use crate::{
    bpf::settings,
    limits::{cells::Cells, own, parents, stages::charged},
    maps::{buckets::Bucket, this_cpu::OWN},
    packet::context::Context,
    shares,
};

/// Writes the reason that the lease and the limits of a policy give into the context. Returns the source's bucket, if the
/// limits needed one. `cells` are there if cells are on.
#[inline(always)]
#[must_use]
pub fn ask(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    cells: Option<Cells>,
    bucket: Option<&'static Bucket>,
) -> Option<&'static Bucket> {
    if settings::has_leases() && may_have_lease(cells) && shares::ask::refuses(context, control, policy) {
        context.reason = Reason::OverShare;
        return bucket;
    }
    let bucket = ask_limits(context, control, policy, cells, bucket);
    if settings::has_leases() && context.has_share() && shares::ask::refuses_at_last(context, control) {
        context.reason = Reason::OverShare;
    }
    bucket
}

/// Most cells tell that none of their sources has a lease.
#[inline(always)]
fn may_have_lease(cells: Option<Cells>) -> bool {
    !settings::has_cells() || cells.is_some_and(|cells| cells.cell.is_leased())
}

#[inline(always)]
fn ask_limits(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    cells: Option<Cells>,
    bucket: Option<&'static Bucket>,
) -> Option<&'static Bucket> {
    let has_parents = settings::is_on(&settings::PARENTS_ON) && policy.has_parents();
    if has_parents {
        context.set_clock(control, policy);
        context.reason = parents::check(context, control, policy);
        if !context.reason.passes() {
            return bucket;
        }
    }
    if has_parents {
        charged::clear(OWN);
    }
    let bucket = own::ask(context, control, policy, cells, bucket);
    if has_parents && context.reason.passes() {
        let by_parents = parents::charge(context, control, policy);
        if !by_parents.passes() {
            charged::give_back(OWN, cells.map(|cells| cells.levels), bucket);
        }
        if by_parents != Reason::WithinLimit {
            context.reason = by_parents;
        }
    }
    bucket
}
