//! Which policy a source has: its own rule, then the longest prefix, then the default; of several services, the narrowest.

use aya_ebpf::btf_maps::lpm_trie::Key;
use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::{
        class::{ANY, Class, Classes, MOST_CLASSES, narrowest, wider},
        source::{PrefixKey, Source},
    },
    limits::policy::{PolicyId, UNLIMITED_ID},
    maps::control::Control,
    rules::rule::NEVER,
};

use crate::{
    bpf::{atomic, settings},
    maps::all::{BANS, CLASSES, PREFIX_RULES, SOURCE_RULES},
    rules::match_word::{DEFAULT_DEPTH, Match},
};

/// Expired rules that are looked past, one inside the other, until the user side has cleared them away. Beyond that, the
/// default applies.
const MOST_EXPIRED: u32 = 8;

/// The verifier refuses misaligned words on the stack, where a packed key could lie anywhere.
#[repr(align(8))]
struct Aligned(Key<PrefixKey>);

/// Calls `look` with each class, [`ANY`] last. No loop, since LLVM lays one with a call in it out so that Linux 6.1 does not see that
/// it ends.
#[inline(always)]
pub(crate) fn each(mut classes: Classes, mut look: impl FnMut(Class)) {
    let mut next = || {
        let class = narrowest(classes);
        look(class);
        classes = wider(classes);
        class != ANY && settings::is_on(&settings::SERVICES_ON)
    };
    const { assert!(MOST_CLASSES == 4) };
    let _ = next() && next() && next() && next();
}

/// The running generation of the rules.
#[inline(always)]
#[must_use]
pub fn generation(control: &Control) -> u32 {
    // SAFETY: a reference is readable; volatile because the user side writes it.
    unsafe { core::ptr::read_volatile(&raw const control.generation) }
}

/// The class that is billed and its policy, for a source that no rule concerns: those of the narrowest class with a default.
#[inline(always)]
#[must_use]
pub fn default(classes: Classes) -> (Class, PolicyId) {
    let mut found = (ANY, UNLIMITED_ID);
    each(classes, |class| {
        if found.1 == UNLIMITED_ID {
            found = (class, CLASSES.get(u32::from(class)).map_or(UNLIMITED_ID, |entry| entry.default_policy));
        }
    });
    found
}

/// The policy of `source` for packets of these classes, and how long that holds.
///
/// The rule for the narrowest class wins. But a source that may send everything or nothing, by a rule for a longer prefix than that
/// one's, may do so in each of its services.
#[inline(always)]
#[must_use]
pub fn resolve(source: &Source, classes: Classes, control: &Control, now: u64) -> Resolution {
    // The generation is read before the rules: a rule that changes meanwhile makes the result stale, never wrong.
    let generation = atomic::read_first(&control.generation);
    let (mut best, mut billed) = (Match::NONE, ANY);
    each(classes, |class| {
        let found = find(source, class, now);
        if best.depth() == 0 || found.is_verdict() && found.depth() > best.depth() {
            (best, billed) = (found, class);
        }
    });
    if best.is_verdict() || u16::from(billed) == source.class {
        best.resolution().in_generation(generation)
    } else {
        best.resolution().billed_to(billed).in_generation(generation)
    }
}

/// What the rules of a class say to a source: its own, that of the longest prefix, or the default.
#[inline(never)]
pub(crate) fn find(source: &Source, class: Class, now: u64) -> Match {
    let source = source.of_class(class);
    // SAFETY: as below.
    if let Some(ban) = unsafe { BANS.get(source) }.filter(|ban| now < ban.expires) {
        return Match::of(ban);
    }
    // SAFETY: the entry is copied before anything can recycle it.
    if let Some(rule) = unsafe { SOURCE_RULES.get(source) }.filter(|rule| now < rule.expires) {
        return Match::of(rule);
    }
    let mut prefix = source.prefix;
    for _ in 0..MOST_EXPIRED {
        let (bits, data) = source.prefix_key(prefix);
        let key = Aligned(Key::new(bits, data));
        let Some(rule) = PREFIX_RULES.get(&key.0) else { break };
        if now < rule.expires {
            return Match::of(rule);
        }
        let Some(shorter) = rule.prefix.checked_sub(1) else { break };
        prefix = shorter;
    }
    let policy = CLASSES.get(u32::from(class)).map_or(UNLIMITED_ID, |entry| entry.default_policy);
    if policy == UNLIMITED_ID && class != ANY { Match::NONE } else { Match::new(policy, NEVER, DEFAULT_DEPTH) }
}
