//! Functions that the verifier checks once, instead of once for each path that leads to them.
//!
//! # Global functions
//!
//! A function with a linker name (`no_mangle`) is *global*: the verifier checks it by its signature alone (kernel 5.6;
//! 5.12 with pointer arguments). Without global functions, each pair of stages multiplied: 138,528 verified
//! instructions for a new instance, instead of about 75,000. Other functions are *static*: the verifier checks them
//! again for each call.
//!
//! # What the verifier does not allow
//!
//! - A global function takes at most five arguments: numbers, and pointers to plain memory of a fixed size. A struct
//!   that contains a pointer is no plain memory, so [`Context`](crate::packet::context::Context) contains none. Cells,
//!   buckets, policies and the control entry are handed on as arguments of their own. Where a sixth argument would be
//!   necessary, the function looks up its entry of the control map or the policy again.
//! - A global function returns one number. So a bucket that it finds is lost, and its caller looks the bucket up again.
//! - A static function may return a pointer to a bucket. The verifier then follows *found* and *not found* separately
//!   through everything behind the call. The bucket that [`cache`](crate::rules::cache) finds is worth that: it saves a
//!   lookup for each packet with a rule. For parents the outcomes would multiply, so
//!   each parent is checked and charged in global functions, which look its bucket up again.
//! - A pointer argument may be null, as far as the verifier knows. So each one is checked with `given`.
//! - Kernels before 6.2 accept no map key from memory that a global function received. So `key` copies it.
//! - The verifier checks global functions whether something calls them or not. Those of a feature that is off begin
//!   with a check of its setting.
//! - A function that is only called after the packet's verdict, such as the counting of an interface's capacity, has no
//!   control entry at hand and looks it up. So does the cap on link discovery, which does not pass `decide`.
//! - Kernel 6.1 adds up the stacks of functions that call each other, in steps of 32 bytes, and allows 512. `decide`,
//!   the source's bucket and their callees use almost all of it. So a long function stays outside of `decide` even if
//!   it is called once.
//! - A loop that contains a call must have a constant number of rounds. Linux 6.1 takes some layouts of such a loop for
//!   endless (6.12 does not). So classes and parents are not visited by loops.
//! - LLVM turns the zeroing of a struct into a call of `memset`, which counts with 32 bytes of the stack. So a new
//!   bucket is written word by word.

use ratelimit_common::identity::source::Source;

/// Returns the reference behind a pointer that a global function received.
#[inline(always)]
pub(crate) fn given<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: callers pass a reference that lives longer than the call, or null.
    unsafe { pointer.as_ref() }
}

/// Copies a source, so that it can be the key of a map. LLVM must not see through the copy.
#[inline(always)]
pub(crate) fn key(source: &Source) -> Source {
    const { assert!(size_of::<Source>() == 24 && align_of::<Source>() == 8) };
    let words: *const u64 = core::ptr::from_ref(source).cast();
    // SAFETY: three readable, aligned words, and any words make a source.
    unsafe {
        let words = [words.read_volatile(), words.add(1).read_volatile(), words.add(2).read_volatile()];
        core::mem::transmute(words)
    }
}

/// Returns the pointer for a global function: null for `None`.
#[inline(always)]
pub(crate) fn handed<T>(reference: Option<&T>) -> *const T {
    reference.map_or(core::ptr::null(), core::ptr::from_ref)
}
