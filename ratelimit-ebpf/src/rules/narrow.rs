//! Finds the part of an IPv6 source that has a rule of its own.
//!
//! A packet reads bits of the filter: one for its whole source, and one for each length in use. Only if a bit is set, a
//! part may have a rule. The search among the rules then runs once for each part and generation, and a map keeps what it
//! found. If more lengths are in use than the list has, each address of such a source counts as a part.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{class::Classes, source::Source},
    maps::control::Control,
};

use crate::{
    bpf::{
        control, settings,
        verifier::{given, key},
    },
    maps::{control as control_map, rules},
    rules::lookup,
};

/// Returns the bits of the longest part around `address` that has a rule for any of the classes. A result that is not
/// longer than the source's own prefix means that there is none.
#[inline(always)]
#[must_use]
pub fn length(address: &Source, classes: Classes, now: u64) -> u8 {
    find_length(address, classes, now) as u8
}

/// A global function, since the verifier would combine its paths with those of the caller.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn find_length(address: *const Source, classes: Classes, now: u64) -> u32 {
    let (Some(address), Some(control), Some(filter)) = (given(address), control_map::get(), rules::filter()) else {
        return 0;
    };
    let (address, lengths) = (key(address), control::narrow_lengths(control));
    let ipv6_prefix = settings::IPV6_PREFIX.load() as u8;
    let length = match filter.longest_part(&address, ipv6_prefix, lengths, &control.seed) {
        0 => 0,
        bits => length_of_part(&address.shortened(bits), classes, control, now),
    };
    u32::from(length)
}

/// Returns the bits of the longest rule around a part, as kept or by a search.
#[inline(always)]
fn length_of_part(part: &Source, classes: Classes, control: &Control, now: u64) -> u8 {
    let hash = part.of_classes(classes).hash(&control.seed);
    // Read before the rules: if one changes meanwhile, what is kept is stale, never wrong.
    let generation = control::generation_first(control);
    let kept = rules::part(hash);
    if kept.holds(generation, now) {
        return kept.policy() as u8;
    }
    let found = lookup::longest_prefix(part, classes, now);
    rules::keep_part(hash, Resolution::new(generation, found.prefix().into(), found.resolution().ends()));
    found.prefix()
}
