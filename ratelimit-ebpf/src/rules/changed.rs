//! Follows a change of the rules between the search for the part of an IPv6 source and the search for its policy.

use ratelimit_common::{
    identity::{
        class::Classes,
        source::{IPV6, Source},
    },
    maps::control::Control,
};

use crate::{bpf::control, maps::narrow_parts, packet::context::Context, rules::lookup};

/// Remembers an IPv6 address before its part is searched.
#[inline(always)]
pub fn begin(address: &Source, control: &Control) {
    if address.family == IPV6 {
        narrow_parts::remember(address, control::generation(control));
    }
}

/// Resolves the policy of a packet once more if the rules have changed since [`begin`]. Otherwise a packet that both the
/// old and the new rules refuse could pass, because no new rule has the old part. Returns whether that was so.
#[inline(always)]
#[must_use]
pub fn follow(context: &mut Context, classes: Classes, control: &Control) -> bool {
    if context.source.family != IPV6 || narrow_parts::is_searched_in(control::generation(control)) {
        return false;
    }
    resolve_address(context, classes, control);
    true
}

/// Resolves the policy of a whole address. The result has an old generation, so that nothing caches it: it holds for
/// this address, and not for the part that is billed.
#[inline(never)]
fn resolve_address(context: &mut Context, classes: Classes, control: &Control) {
    let Some((address, generation)) = narrow_parts::remembered() else { return };
    let (class, resolution) = lookup::of_address(address, classes, control, context.now);
    context.source.class = u16::from(class);
    context.resolution = resolution.in_generation(generation);
}
