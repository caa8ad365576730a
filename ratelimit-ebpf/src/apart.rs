//! Functions that the verifier checks once, and not anew for each way of getting there.
//!
//! It does so with functions that a linker sees from outside (kernel 5.6; with memory as an argument, 5.12). They have names of their own, take
//! numbers and pointers to memory without pointers in it, and return one number, be it for nothing. What a pointer leads to may be missing, as far as the verifier
//! knows, so each is looked at. They are checked whether anybody calls
//! them or not; those of a stage that is switched off begin by saying so, and nothing else of them is left.

/// What such a function was handed.
#[inline(always)]
pub fn given<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: callers have it from a reference that lives longer than the call, or hand over null.
    unsafe { pointer.as_ref() }
}

/// The same, to be changed. It is nobody else's during the call.
#[inline(always)]
pub fn given_mut<'a, T>(pointer: *mut T) -> Option<&'a mut T> {
    // SAFETY: as above, and callers have it from an exclusive reference.
    unsafe { pointer.as_mut() }
}

/// A pointer for such a function, null for nothing.
#[inline(always)]
pub fn handed<T>(reference: Option<&T>) -> *const T {
    reference.map_or(core::ptr::null(), core::ptr::from_ref)
}
