//! Rules, policies, and the classes of services.
//!
//! A policy is read from an array by index, which the verifier inlines. A copy in each bucket could be read
//! half-written.
//!
//! # Rules that change while they are read
//!
//! A rule is never changed in place: its element is replaced, and the old element gets another key. The element of a
//! prefix gets one only after an RCU grace period, so no program reads it then (Linux frees the nodes of an LPM trie by
//! `kfree_rcu`, or by `bpf_mem_cache_free_rcu` since 6.13). The element of a hash map can get another key at once, while
//! this CPU still reads it: if the map preallocates its elements, and also without that since Linux 6.1.
//!
//! So `unchanged` copies such a rule, looks its key up again, and takes the copy if the same element is still there. The
//! element belonged to the key at both lookups, so the copy is the key's rule. Otherwise the rule has just changed, and
//! the element of the second lookup is copied. So a wrong copy takes two changes of one rule, each within the
//! nanoseconds between a lookup and the copy after it.

pub mod lists;
pub mod spared;

use aya_ebpf::{
    btf_maps::{Array, HashMap, LpmTrie, lpm_trie::Key},
    macros::btf_map,
};
use ratelimit_common::{
    identity::{
        class::{self, Class},
        filter::Filter,
        fine_filter,
        service::{ClassEntry, Services},
        source::{PrefixKey, Source},
    },
    limits::policy::{Policy, PolicyId, UNLIMITED_ID},
    maps::names,
    rules::{comment::Owner, rule::Rule},
};

use crate::{
    bpf::{
        atomic::Word,
        map_flags::{ALIGNED, NO_PREALLOC},
        verifier::given,
    },
    maps::control,
};

/// See [`names::SOURCE_RULES`].
#[btf_map]
pub static SOURCE_RULES: HashMap<Source, Rule, { names::SOURCE_RULES_MAX as usize }, NO_PREALLOC> = HashMap::new();

/// See [`names::PREFIX_RULES`].
#[btf_map]
pub static PREFIX_RULES: LpmTrie<PrefixKey, Rule, { names::PREFIX_RULES_MAX as usize }> = LpmTrie::new();

/// See [`names::COMMENTS`].
#[btf_map]
pub static COMMENTS: HashMap<Source, Owner, { names::COMMENTS_MAX as usize }, NO_PREALLOC> = HashMap::new();

/// See [`names::RULE_FILTER`].
#[btf_map]
pub static RULE_FILTER: Array<Filter, 1> = Array::new();

/// See [`names::FINE_FILTER`].
#[btf_map]
pub static FINE_FILTER: Array<Word, { fine_filter::WORDS }, ALIGNED> = Array::new();

/// See [`names::POLICIES`].
#[btf_map]
pub static POLICIES: Array<Policy, { names::POLICIES_MAX as usize }> = Array::new();

/// See [`ratelimit_common::maps::names::CLASSES`].
#[btf_map]
pub static CLASSES: Array<ClassEntry, { class::CLASSES }> = Array::new();

/// See [`ratelimit_common::maps::names::SERVICES`].
#[btf_map]
pub static SERVICES: Array<Services, 1> = Array::new();

/// The verifier refuses misaligned words on the stack, and a packed key could lie anywhere.
#[repr(align(8))]
struct Aligned(Key<PrefixKey>);

/// Returns the policy in a slot.
#[inline(always)]
#[must_use]
pub fn policy(id: PolicyId) -> Option<&'static Policy> {
    POLICIES.get(id)
}

/// Copies the rule that `find` returns. See the [module](self).
#[inline(always)]
fn unchanged(find: impl Fn() -> Option<&'static Rule>) -> Option<Rule> {
    let place = find()?;
    let copy = words(place);
    let again = find()?;
    let copy = if core::ptr::eq(place, again) { copy } else { words(again) };
    // SAFETY: any words make a rule.
    Some(unsafe { core::mem::transmute::<[u64; 2], Rule>(copy) })
}

/// Reads the words of a rule at this moment, and not again later.
#[inline(always)]
fn words(rule: &Rule) -> [u64; 2] {
    const { assert!(size_of::<Rule>() == 16 && align_of::<Rule>() == 8) };
    let words: *const u64 = core::ptr::from_ref(rule).cast();
    // SAFETY: two readable, aligned words.
    unsafe { [words.read_volatile(), words.add(1).read_volatile()] }
}

/// Returns the rule of exactly this source.
#[inline(always)]
#[must_use]
pub fn source_rule(source: &Source) -> Option<Rule> {
    // SAFETY: an element that the kernel recycles holds another rule, which is valid too.
    unchanged(|| unsafe { SOURCE_RULES.get(source) })
}

/// Returns the rule of the longest prefix around a source that has at most `bits` bits.
#[inline(always)]
#[must_use]
pub fn prefix_rule(source: &Source, bits: u8) -> Option<Rule> {
    let (bits, data) = source.prefix_key(bits);
    PREFIX_RULES.get(&Aligned(Key::new(bits, data)).0).copied()
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
    RULE_FILTER.get(0).is_none_or(|filter| filter.concerns(source)) && (are_few() || is_in_fine_group(source) != 0)
}

/// Returns whether the first filter is enough.
#[inline(always)]
fn are_few() -> bool {
    FINE_FILTER.get(fine_filter::RULES as u32).is_some_and(|rules| rules.load() <= fine_filter::FEW_RULES)
}

/// Returns whether a rule may match a source that the first filter lets through.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn is_in_fine_group(source: *const Source) -> u32 {
    let (Some(source), Some(control)) = (given(source), control::get()) else { return 1 };
    u32::from(fine_filter::concerns(source, &control.seed, |index| FINE_FILTER.get(index as u32).map(Word::load)))
}

/// Returns the classes of each protocol and port.
#[inline(always)]
#[must_use]
pub fn services() -> Option<&'static Services> {
    SERVICES.get(0)
}

/// Returns the policy of sources without a rule for this class.
#[inline(always)]
#[must_use]
pub fn default_policy(class: Class) -> PolicyId {
    CLASSES.get(u32::from(class)).map_or(UNLIMITED_ID, |entry| entry.default_policy)
}

/// Returns the cost of a packet of this class; 0 if the class has none.
#[inline(always)]
#[must_use]
pub fn cost_of(class: Class) -> u32 {
    CLASSES.get(u32::from(class)).map_or(0, |entry| u32::from(entry.cost))
}

#[cfg(test)]
mod tests;
