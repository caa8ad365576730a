//! The source that a packet is billed to, what the packet costs, and the policy of a source that no rule matches.
//!
//! # Parts of IPv6 sources
//!
//! If no rule for a part of an IPv6 source exists, none of the search for parts runs. Rules of whole IPv6 sources are in
//! `PREFIX_RULES` too, so that parts find them. `SOURCE_RULES` is for addresses.
//!
//! A packet reads bits of the filter: one for its whole source, and one for each length in use. Only if a bit is set, a
//! part may have a rule. The search among the rules then runs once for each part and generation, and a map keeps what it
//! found. If more lengths are in use than the list has, each address of such a source counts as a part.
//!
//! The rules may change between the search for the part and the search for its policy. Then the policy is searched again.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{
        class::{self, ANY, Class, Classes},
        narrow::Lengths,
        source::{IPV6, Source},
    },
    limits::policy::{PolicyId, UNLIMITED_ID},
    maps::control::Control,
};

use crate::{
    bpf::{
        settings,
        verifier::{given, key},
    },
    maps::{control, narrow_parts, rules},
    packet::context::Context,
    rules::lookup,
};

/// Turns an address into the source that its packet is billed to. For IPv4 this is the address. For IPv6 it is the
/// prefix, or the longer prefix of a rule for a part of it. Such a rule can exist only if a rule may match the address.
#[inline(always)]
pub fn source(address: &mut Source, classes: Classes, control: &Control, now: u64, may_match: bool) {
    if address.family == IPV6 {
        let mut prefix = address.bits(settings::IPV6_PREFIX.load() as u8);
        if may_match && control::narrow_lengths(control) != Lengths::default() {
            prefix = prefix.max(narrow_length(address, classes, now));
        }
        *address = address.shortened(prefix);
    }
    *address = address.of_classes(classes);
}

/// Returns the bits of the longest part around `address` that has a rule for any of the classes. A result that is not
/// longer than the source's own prefix means that there is none.
#[inline(always)]
fn narrow_length(address: &Source, classes: Classes, now: u64) -> u8 {
    // Two calls, because of the stack.
    match longest_part(address) {
        0 => 0,
        bits => length_of_part(address, bits, classes, now) as u8,
    }
}

/// A global function, since the verifier would combine its paths with those of the caller.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn longest_part(address: *const Source) -> u32 {
    let (Some(address), Some(control), Some(filter)) = (given(address), control::get(), rules::filter()) else {
        return 0;
    };
    let (ipv6_prefix, lengths) = (settings::IPV6_PREFIX.load() as u8, control::narrow_lengths(control));
    u32::from(filter.longest_part(&key(address), ipv6_prefix, lengths, &control.seed))
}

/// Returns the bits of the longest rule around the part with these bits, as kept or by a search.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn length_of_part(address: *const Source, bits: u32, classes: Classes, now: u64) -> u32 {
    let (Some(address), Some(control)) = (given(address), control::get()) else { return 0 };
    let part = address.shortened(bits as u8);
    let hash = part.of_classes(classes).hash(&control.seed);
    // Read before the rules: if one changes meanwhile, what is kept is stale, never wrong.
    let generation = control::generation_first(control);
    let kept = narrow_parts::get(hash);
    if kept.holds(generation, now) {
        return kept.policy();
    }
    let found = lookup::longest_prefix(&part, classes, control, generation, now);
    narrow_parts::keep(hash, Resolution::new(generation, found.prefix().into(), found.resolution().ends()));
    u32::from(found.prefix())
}

/// Returns the class that is billed and its policy, for a source that no rule matches: those of the narrowest class
/// with a default.
#[inline(always)]
#[must_use]
pub fn by_default(classes: Classes) -> (Class, PolicyId) {
    let mut found = (ANY, UNLIMITED_ID);
    class::each(classes, settings::has_services(), |class| {
        if found.1 == UNLIMITED_ID {
            found = (class, rules::default_policy(class));
        }
    });
    found
}

/// Returns the cost of a packet of these classes in limits of packets: that of the narrowest service with a cost. It belongs
/// to the packet, not to the rule, and cells leave room for the largest one.
#[inline(always)]
#[must_use]
pub fn cost(classes: Classes) -> u32 {
    let mut cost = 0;
    if settings::has_costs() {
        class::each(classes, settings::has_services(), |class| {
            if cost == 0 {
                cost = rules::cost_of(class);
            }
        });
    }
    cost.max(1)
}

/// Remembers an IPv6 address before its part is searched.
#[inline(always)]
pub fn begin_search(address: &Source, control: &Control) {
    if address.family == IPV6 {
        narrow_parts::remember(address, control::generation(control));
    }
}

/// Resolves the policy of a packet once more if the rules have changed since [`begin_search`]. Otherwise a packet that both the
/// old and the new rules refuse could pass, because no new rule has the old part. Returns whether that was so.
#[inline(always)]
#[must_use]
pub fn follow_change(context: &mut Context, classes: Classes, control: &Control) -> bool {
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
