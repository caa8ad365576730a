//! The prefixes that this host spares.
//!
//! A command changes an entry as it changes a [rule](super): it replaces the element.

use aya_ebpf::{
    btf_maps::{LpmTrie, lpm_trie::Key},
    macros::btf_map,
};
use ratelimit_common::{
    identity::{
        class::ANY,
        source::{PrefixKey, Source},
    },
    maps::names,
};

use super::Aligned;
use crate::bpf::{settings, verifier::given};

/// See [`names::SPARED`].
#[btf_map]
pub static SPARED: LpmTrie<PrefixKey, u64, { names::SPARED_MAX as usize }> = LpmTrie::new();

/// Returns whether this host spares a source.
#[inline(always)]
#[must_use]
pub fn has(source: &Source) -> bool {
    settings::is_on(&settings::SPARE_ON) && is_spared(source) != 0
}

/// A global function, since rules, lists and bans ask.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn is_spared(source: *const Source) -> u32 {
    let Some(source) = given(source).filter(|_| settings::is_on(&settings::SPARE_ON)) else { return 0 };
    let (bits, data) = source.of_class(ANY).prefix_key(source.prefix);
    u32::from(SPARED.get(&Aligned(Key::new(bits, data)).0).is_some())
}
