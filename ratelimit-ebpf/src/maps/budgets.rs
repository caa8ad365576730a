//! States of the budgets that all CPUs share.

use aya_ebpf::{btf_maps::Array, macros::btf_map};

use crate::bpf::atomic::Word;

/// See [`ratelimit_common::maps::names::LINK_DISCOVERY`].
#[btf_map]
pub static LINK_DISCOVERY: Array<Word, 1> = Array::new();

/// See [`ratelimit_common::maps::names::UNKNOWN`].
#[btf_map]
pub static UNKNOWN: Array<Word, 1> = Array::new();

/// See [`ratelimit_common::maps::names::REPLIES`].
#[btf_map]
pub static REPLIES: Array<Word, 1> = Array::new();

/// Returns the state of the cap on ARP and neighbour discovery.
#[inline(always)]
#[must_use]
pub fn link_discovery() -> Option<&'static Word> {
    LINK_DISCOVERY.get(0)
}

/// Returns the state of the limit of all unknown sources.
#[inline(always)]
#[must_use]
pub fn unknown() -> Option<&'static Word> {
    UNKNOWN.get(0)
}

/// Returns the state of the budget for replies.
#[inline(always)]
#[must_use]
pub fn replies() -> Option<&'static Word> {
    REPLIES.get(0)
}
