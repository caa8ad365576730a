//! Which policy a source has: its own rule, then the longest prefix, then the default.

use aya_ebpf::btf_maps::lpm_trie::Key;
use ratelimit_common::{
    bucket::Resolution,
    control::Control,
    rule::{NEVER, Rule},
    source::{IPV6, Source},
};

use crate::{
    atomic,
    maps::{PREFIX_RULES, SOURCE_RULES},
    settings,
};

/// Expired rules that are looked past, one inside the other, until the user side has cleared them away. Beyond that, the
/// default applies.
const MOST_EXPIRED: u32 = 16;

/// The verifier refuses misaligned words on the stack, where a packed key could lie anywhere.
#[repr(align(8))]
struct Aligned(Key<Source>);

/// The source that a packet from `address` is billed to: the address for IPv4; for IPv6 its prefix, or the longer prefix
/// of a rule that the operator made for a part of it.
#[inline(always)]
#[must_use]
pub fn identify(address: &Source, control: &Control, now: u64) -> Source {
    if address.family != IPV6 {
        return *address;
    }
    // SAFETY: a reference is readable; volatile because the user side writes it.
    let narrow_rules = unsafe { core::ptr::read_volatile(&raw const control.narrow_rules) };
    let mut prefix = address.bits(settings::IPV6_PREFIX.load() as u8);
    if narrow_rules != 0
        && let Some(rule) = longest_prefix(address, now)
    {
        prefix = prefix.max(rule.prefix);
    }
    Source::v6(address.address, prefix)
}

/// The running generation of the rules.
#[inline(always)]
#[must_use]
pub fn generation(control: &Control) -> u32 {
    // SAFETY: a reference is readable; volatile because the user side writes it.
    unsafe { core::ptr::read_volatile(&raw const control.generation) }
}

/// The policy of `source`, and how long that holds. Rarely called, so it is a function of its own.
#[inline(never)]
#[must_use]
pub fn resolve(source: &Source, control: &Control, now: u64) -> Resolution {
    // The generation is read before the rules: a rule that changes meanwhile makes the result stale, never wrong.
    let generation = atomic::read_first(&control.generation);
    // SAFETY: a reference is readable; volatile because the user side writes it.
    let default = unsafe { core::ptr::read_volatile(&raw const control.default_policy) };
    // SAFETY: the entry is copied before anything can recycle it.
    let own = unsafe { SOURCE_RULES.get(source) }.copied().filter(|rule| now < rule.expires);
    match own.or_else(|| longest_prefix(source, now)) {
        Some(rule) => Resolution::new(generation, rule.policy, rule.expires),
        None => Resolution::new(generation, default, NEVER),
    }
}

/// The rule of the longest prefix around `source` that has not expired.
#[inline(never)]
fn longest_prefix(source: &Source, now: u64) -> Option<Rule> {
    let mut prefix = source.prefix;
    for _ in 0..MOST_EXPIRED {
        let (bits, data) = source.prefix_key(prefix);
        let key = Aligned(Key::new(bits, data));
        let rule = *PREFIX_RULES.get(&key.0)?;
        if now < rule.expires {
            return Some(rule);
        }
        prefix = rule.prefix.checked_sub(1)?;
    }
    None
}
