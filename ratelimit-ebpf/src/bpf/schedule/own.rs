//! Memory that only one CPU of the machine uses, as the entries of per-CPU maps.

use core::{cell::Cell, mem::MaybeUninit};
use std::boxed::Box;

use ratelimit_common::maps::control::Control;

std::thread_local! {
    /// Begin and end of the memory of this CPU.
    static OWN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    /// The control entry of the machine that this CPU belongs to.
    static CONTROL: Cell<Option<&'static Control>> = const { Cell::new(None) };
}

/// Makes this CPU one of a machine with this control entry.
pub(crate) fn join(control: &'static Control) {
    CONTROL.set(Some(control));
}

/// Returns the control entry of this CPU's machine.
pub(crate) fn control() -> Option<&'static Control> {
    CONTROL.get()
}

/// Returns memory of zeros, which lasts as long as the test. `T` consists of words.
pub(crate) fn zeros<T>() -> &'static T {
    // SAFETY: a word has no invalid value.
    Box::leak(Box::new(unsafe { MaybeUninit::<T>::zeroed().assume_init() }))
}

/// Returns the memory of this CPU, which is of one type. `T` consists of words.
pub(crate) fn get<T>() -> &'static T {
    let (begin, end) = OWN.get();
    if begin == 0 {
        let memory = zeros::<T>();
        let begin = core::ptr::from_ref(memory).expose_provenance();
        OWN.set((begin, begin + size_of::<T>()));
        return memory;
    }
    assert_eq!(end - begin, size_of::<T>());
    // SAFETY: it was allocated for this type, and is never freed.
    unsafe { &*core::ptr::with_exposed_provenance(begin) }
}

/// Returns whether an address lies in the memory of this CPU.
pub(crate) fn contains(address: usize) -> bool {
    let (begin, end) = OWN.get();
    (begin..end).contains(&address)
}
