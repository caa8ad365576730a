//! The source that a packet is billed to.
//!
//! If a rule for a part of an IPv6 source exists, every IPv6 packet that a rule may match looks up its longest prefix.
//! Without such a rule, none of this code runs. Rules of whole IPv6 sources are in `PREFIX_RULES` too, so that parts
//! find them. `SOURCE_RULES` is for addresses.

use ratelimit_common::{
    identity::{
        class::Classes,
        source::{IPV6, Source},
    },
    maps::control::Control,
};

use crate::{
    bpf::{control, settings},
    rules::lookup,
};

/// Turns an address into the source that its packet is billed to. For IPv4 this is the address. For IPv6 it is the
/// prefix, or the longer prefix of a rule for a part of it. Such a rule can exist only if a rule may match the address.
#[inline(always)]
pub fn identify(address: &mut Source, classes: Classes, control: &Control, now: u64, may_match: bool) {
    if address.family == IPV6 {
        let mut prefix = address.bits(settings::IPV6_PREFIX.load() as u8);
        if may_match && control::has_narrow_rules(control) {
            prefix = prefix.max(lookup::longest_prefix(address, classes, now));
        }
        *address = address.shortened(prefix);
    }
    *address = address.of_classes(classes);
}
