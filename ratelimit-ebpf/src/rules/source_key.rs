//! Who a packet is billed to.

use ratelimit_common::{
    identity::{
        class::Classes,
        source::{IPV6, Source},
    },
    maps::control::Control,
};

use crate::{
    bpf::settings,
    rules::{lookup, match_word::DEFAULT_DEPTH},
};

/// Makes an address the source that its packet is billed to: the address for IPv4; for IPv6 its prefix, or the longer prefix
/// of a rule that the operator made for a part of it, which there can be only if a rule may concern the address.
#[inline(always)]
pub fn identify(address: &mut Source, classes: Classes, control: &Control, now: u64, is_concerned: bool) {
    if address.family == IPV6 {
        // SAFETY: a reference is readable; volatile because the user side writes it.
        let narrow_rules = unsafe { core::ptr::read_volatile(&raw const control.narrow_rules) };
        let mut prefix = address.bits(settings::IPV6_PREFIX.load() as u8);
        if is_concerned && narrow_rules != 0 {
            prefix = prefix.max(longest_of_all(address, classes, now));
        }
        *address = address.shortened(prefix);
    }
    *address = address.of_classes(classes);
}

/// Bits of the longest prefix around `address` that has a rule for any of the classes; 0 if there is none.
#[inline(never)]
fn longest_of_all(address: &Source, classes: Classes, now: u64) -> u8 {
    let mut longest = DEFAULT_DEPTH;
    lookup::each(classes, |class| longest = longest.max(lookup::find(address, class, now).depth()));
    (longest - DEFAULT_DEPTH).saturating_sub(1) as u8
}
