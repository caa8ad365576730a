//! Map layouts, names and pure algorithms that the kernel side and the user side of ratelimit share.
//!
//! Everything that crosses the boundary is `repr(C)` without padding, has its layout asserted at compile time, and
//! changes only together with [`maps::control::ABI_VERSION`]. A field whose meaning changes gets another name, because
//! versions copy fields by name.
#![no_std]
#![warn(missing_docs)]

#[cfg(any(test, feature = "user"))]
extern crate std;

pub mod buckets;
pub mod cells;
pub mod fleet;
pub mod identity;
pub mod limits;
pub mod maps;
pub mod meters;
pub mod reason;
pub mod rules;

/// Asserts size and alignment of a type that crosses the boundary, and lets aya read and write it on the user side.
macro_rules! boundary {
    ($type:ty, size $size:expr) => {
        const _: () = assert!(size_of::<$type>() == $size && align_of::<$type>() <= 8);
        // SAFETY: `repr(C)`, integers and arrays of integers only, and the size above leaves no padding.
        #[cfg(feature = "aya")]
        unsafe impl aya::Pod for $type {}
    };
}
pub(crate) use boundary;
