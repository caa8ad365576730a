//! Finds the part of an IPv6 source that has a rule of its own.
//!
//! A packet reads bits of the filter: one for its whole source, and one for each length in use. Only if a bit is set, a
//! part may have a rule. The search among the rules then runs once for each part and generation, and a map keeps what it
//! found. If more lengths are in use than the list has, each address of such a source counts as a part.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{class::Classes, source::Source},
};

use crate::{
    bpf::{
        control, settings,
        verifier::{given, key},
    },
    maps::{control as control_map, narrow_parts, rules},
    rules::lookup,
};

/// Returns the bits of the longest part around `address` that has a rule for any of the classes. A result that is not
/// longer than the source's own prefix means that there is none.
#[inline(always)]
#[must_use]
pub fn length(address: &Source, classes: Classes, now: u64) -> u8 {
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
    let (Some(address), Some(control), Some(filter)) = (given(address), control_map::get(), rules::filter()) else {
        return 0;
    };
    let (ipv6_prefix, lengths) = (settings::IPV6_PREFIX.load() as u8, control::narrow_lengths(control));
    u32::from(filter.longest_part(&key(address), ipv6_prefix, lengths, &control.seed))
}

/// Returns the bits of the longest rule around the part with these bits, as kept or by a search.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn length_of_part(address: *const Source, bits: u32, classes: Classes, now: u64) -> u32 {
    let (Some(address), Some(control)) = (given(address), control_map::get()) else { return 0 };
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
