//! Rules and policies.
//!
//! A policy is read from an array by index, which the verifier inlines. A copy in each bucket could be read
//! half-written.

use aya_ebpf::{
    btf_maps::{Array, HashMap, LpmTrie, lpm_trie::Key},
    macros::btf_map,
};
use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{
        filter::Filter,
        source::{PrefixKey, Source},
    },
    limits::policy::{Policy, PolicyId},
    maps::names,
    rules::rule::Rule,
};

use crate::bpf::{
    atomic::Word,
    map_flags::{ALIGNED, NO_PREALLOC},
};

/// See [`names::SOURCE_RULES`].
#[btf_map]
pub static SOURCE_RULES: HashMap<Source, Rule, { names::SOURCE_RULES_MAX as usize }, NO_PREALLOC> = HashMap::new();

/// See [`names::PREFIX_RULES`].
#[btf_map]
pub static PREFIX_RULES: LpmTrie<PrefixKey, Rule, { names::PREFIX_RULES_MAX as usize }> = LpmTrie::new();

/// See [`names::RULE_FILTER`].
#[btf_map]
pub static RULE_FILTER: Array<Filter, 1> = Array::new();

/// See [`names::POLICIES`].
#[btf_map]
pub static POLICIES: Array<Policy, { names::POLICIES_MAX as usize }> = Array::new();

/// Entries of the map of parts. Two parts that use the same entry search each time.
const PARTS: usize = 1 << 14;

/// Keyed hash of a part of an IPv6 source → [`Part`]. Each loaded program has its own map, which no command reads.
#[btf_map]
pub static NARROW_PARTS: Array<Part, PARTS, ALIGNED> = Array::new();

/// The length that a search found for one part.
#[repr(C)]
pub struct Part {
    /// A [`Resolution`] with the length in place of the policy.
    resolution: Word,
    /// The hash of the part exclusive-or the resolution, so halves of two entries match no part.
    check: Word,
}

/// The verifier refuses misaligned words on the stack, and a packed key could lie anywhere.
#[repr(align(8))]
struct Aligned(Key<PrefixKey>);

/// Returns the policy in a slot.
#[inline(always)]
#[must_use]
pub fn policy(id: PolicyId) -> Option<&'static Policy> {
    POLICIES.get(id)
}

/// Returns the rule of exactly this source.
#[inline(always)]
#[must_use]
pub fn source_rule(source: &Source) -> Option<&'static Rule> {
    // SAFETY: callers copy the fields before anything can recycle the entry.
    unsafe { SOURCE_RULES.get(source) }
}

/// Returns the rule of the longest prefix around a source that has at most `bits` bits.
#[inline(always)]
#[must_use]
pub fn prefix_rule(source: &Source, bits: u8) -> Option<&'static Rule> {
    let (bits, data) = source.prefix_key(bits);
    PREFIX_RULES.get(&Aligned(Key::new(bits, data)).0)
}

/// Returns the filter of sources that a rule may match.
#[inline(always)]
#[must_use]
pub fn filter() -> Option<&'static Filter> {
    RULE_FILTER.get(0)
}

/// Returns whether a rule may match a source.
#[inline(always)]
#[must_use]
pub fn may_match(source: &Source) -> bool {
    RULE_FILTER.get(0).is_none_or(|filter| filter.concerns(source))
}

/// Returns what is kept for the part with this hash: [`Resolution::NONE`] if nothing is.
#[inline(always)]
#[must_use]
pub fn part(hash: u64) -> Resolution {
    let Some(part) = NARROW_PARTS.get(hash as u32 & (PARTS - 1) as u32) else { return Resolution::NONE };
    let resolution = part.resolution.load();
    if part.check.load() ^ resolution == hash { Resolution(resolution) } else { Resolution::NONE }
}

/// Keeps what a search found for the part with this hash.
#[inline(always)]
pub fn keep_part(hash: u64, resolution: Resolution) {
    if let Some(part) = NARROW_PARTS.get(hash as u32 & (PARTS - 1) as u32) {
        part.resolution.store(resolution.0);
        part.check.store(resolution.0 ^ hash);
    }
}
