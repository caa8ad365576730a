//! Words that several CPUs change at once.
//!
//! bpf has no read-modify-write in `core::sync::atomic`. An adding intrinsic whose result is used compiles to a wrong
//! instruction under Relaxed ordering. So this file offers a load, a store, an addition without a result, an addition
//! with a result under another ordering, and compare-and-exchange (kernel 5.12).
//!
//! LLVM must not unroll loops of compare-and-exchange. They would more than double the program.

use core::cell::UnsafeCell;

#[cfg(test)]
use crate::bpf::schedule::{self, Stop};

/// Reads a `u32` in a map before everything that follows.
#[inline(always)]
#[must_use]
pub fn read_first(value: &u32) -> u32 {
    let pointer = core::ptr::from_ref(value).cast_mut();
    #[cfg(target_arch = "bpf")]
    // SAFETY: the word is in a map and aligned. Adding nothing and fetching is the one load that orders (v3, kernel
    // 5.12); the result is used, so the ordering must not be Relaxed.
    unsafe {
        use core::intrinsics::{AtomicOrdering, atomic_xadd};
        atomic_xadd::<u32, u32, { AtomicOrdering::SeqCst }>(pointer, 0)
    }
    #[cfg(not(target_arch = "bpf"))]
    // SAFETY: a reference is readable.
    unsafe {
        core::ptr::read_volatile(pointer)
    }
}

/// A `u64` in a map.
#[repr(transparent)]
pub struct Word(UnsafeCell<u64>);

// SAFETY: every access below is one aligned 64-bit instruction.
unsafe impl Sync for Word {}

impl Word {
    /// Creates a word that no other CPU sees yet.
    #[inline(always)]
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Returns the value.
    #[inline(always)]
    #[must_use]
    pub fn load(&self) -> u64 {
        #[cfg(test)]
        schedule::stop(self.0.get(), Stop::Load);
        // SAFETY: the cell is valid and aligned; volatile, so that it is read once, whole.
        unsafe { core::ptr::read_volatile(self.0.get()) }
    }

    /// Sets the value.
    #[inline(always)]
    pub fn store(&self, value: u64) {
        #[cfg(test)]
        schedule::stop(self.0.get(), Stop::Write);
        // SAFETY: as for `load`.
        unsafe { core::ptr::write_volatile(self.0.get(), value) }
    }

    /// Returns a number in a map as a word.
    #[inline(always)]
    #[must_use]
    pub fn of(value: &u64) -> &Self {
        // SAFETY: the same size and alignment, and any bytes are a valid word.
        unsafe { &*core::ptr::from_ref(value).cast() }
    }

    /// Adds one. Only this CPU may write the word.
    #[inline(always)]
    pub fn increment(&self) {
        self.store(self.load().wrapping_add(1));
    }

    /// Adds, wrapping around.
    #[inline(always)]
    pub fn add(&self, value: u64) {
        #[cfg(test)]
        schedule::stop(self.0.get(), Stop::Add);
        #[cfg(target_arch = "bpf")]
        // SAFETY: the cell is valid and aligned. The result is not used, so that this is one locked addition.
        unsafe {
            use core::intrinsics::{AtomicOrdering, atomic_xadd};
            atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(self.0.get(), value);
        }
        #[cfg(not(target_arch = "bpf"))]
        self.host().fetch_add(value, core::sync::atomic::Ordering::Relaxed);
    }

    /// Adds, wrapping around, and returns the value before.
    #[inline(always)]
    #[must_use]
    pub fn fetch_add(&self, value: u64) -> u64 {
        #[cfg(test)]
        schedule::stop(self.0.get(), Stop::Add);
        #[cfg(target_arch = "bpf")]
        // SAFETY: the cell is valid and aligned. The result is used, so the ordering must not be Relaxed.
        unsafe {
            use core::intrinsics::{AtomicOrdering, atomic_xadd};
            atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(self.0.get(), value)
        }
        #[cfg(not(target_arch = "bpf"))]
        self.host().fetch_add(value, core::sync::atomic::Ordering::SeqCst)
    }

    /// Sets the value to `new` if it is `old`.
    ///
    /// # Errors
    ///
    /// Returns the value that is there instead.
    #[inline(always)]
    pub fn compare_exchange(&self, old: u64, new: u64) -> Result<(), u64> {
        #[cfg(test)]
        schedule::stop(self.0.get(), Stop::Write);
        #[cfg(target_arch = "bpf")]
        // SAFETY: the cell is valid and aligned.
        let (was, swapped) = unsafe {
            use core::intrinsics::{AtomicOrdering, atomic_cxchg};
            atomic_cxchg::<u64, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(self.0.get(), old, new)
        };
        #[cfg(target_arch = "bpf")]
        return if swapped { Ok(()) } else { Err(was) };
        #[cfg(not(target_arch = "bpf"))]
        {
            use core::sync::atomic::Ordering::SeqCst;
            self.host().compare_exchange(old, new, SeqCst, SeqCst).map(|_| ())
        }
    }

    #[cfg(not(target_arch = "bpf"))]
    fn host(&self) -> &core::sync::atomic::AtomicU64 {
        // SAFETY: the cell is valid, aligned, and only ever accessed by this type.
        unsafe { core::sync::atomic::AtomicU64::from_ptr(self.0.get()) }
    }
}
