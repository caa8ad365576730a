//! Functions that the verifier checks once, and not anew for each way of getting there.
//!
//! It does so with functions that a linker sees from outside (kernel 5.6; with memory as an argument, 5.12). They have names of their own, take
//! numbers and pointers to memory without pointers in it, and return one number, be it for nothing. What a pointer leads to may be missing, as far as the verifier
//! knows, so each is looked at. They are checked whether anybody calls
//! them or not; those of a stage that is switched off begin by saying so, and nothing else of them is left.

use ratelimit_common::identity::source::Source;

/// What such a function was handed.
#[inline(always)]
pub(crate) fn given<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: callers have it from a reference that lives longer than the call, or hand over null.
    unsafe { pointer.as_ref() }
}

/// The same, to be changed. It is nobody else's during the call.
#[inline(always)]
pub(crate) fn given_mut<'a, T>(pointer: *mut T) -> Option<&'a mut T> {
    // SAFETY: as above, and callers have it from an exclusive reference.
    unsafe { pointer.as_mut() }
}

/// A source as the key of a map. Kernels before 6.2 take no key out of memory that such a function was handed, so it is copied, which LLVM must
/// not see through.
#[inline(always)]
pub(crate) fn key(source: &Source) -> Source {
    const { assert!(size_of::<Source>() == 24 && align_of::<Source>() == 8) };
    let words: *const u64 = core::ptr::from_ref(source).cast();
    // SAFETY: three readable, aligned words, which any source can be made of.
    unsafe {
        let words = [words.read_volatile(), words.add(1).read_volatile(), words.add(2).read_volatile()];
        core::mem::transmute(words)
    }
}

/// A pointer for such a function, null for nothing.
#[inline(always)]
pub(crate) fn handed<T>(reference: Option<&T>) -> *const T {
    reference.map_or(core::ptr::null(), core::ptr::from_ref)
}
