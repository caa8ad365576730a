//! The source that a packet is billed to.
//!
//! If no rule for a part of an IPv6 source exists, none of the search for parts runs. Rules of whole IPv6 sources are in
//! `PREFIX_RULES` too, so that parts find them. `SOURCE_RULES` is for addresses.

use ratelimit_common::{
    identity::{
        class::Classes,
        narrow::Lengths,
        source::{IPV6, Source},
    },
    maps::control::Control,
};

use crate::{
    bpf::{control, settings},
    rules::narrow,
};

/// Turns an address into the source that its packet is billed to. For IPv4 this is the address. For IPv6 it is the
/// prefix, or the longer prefix of a rule for a part of it. Such a rule can exist only if a rule may match the address.
#[inline(always)]
pub fn identify(address: &mut Source, classes: Classes, control: &Control, now: u64, may_match: bool) {
    if address.family == IPV6 {
        let mut prefix = address.bits(settings::IPV6_PREFIX.load() as u8);
        if may_match && control::narrow_lengths(control) != Lengths::default() {
            prefix = prefix.max(narrow::length(address, classes, now));
        }
        *address = address.shortened(prefix);
    }
    *address = address.of_classes(classes);
}
