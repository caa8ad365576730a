//! Parents: wider limits above the limit of a single source. Each has one bucket for many sources.

use crate::boundary;

/// A wider limit with one bucket for all sources in its scope whose policy names it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Parent {
    /// Slot of the parent's own policy, which has limits and no parents.
    pub policy: u16,
    /// Scope of its bucket: [`IN_PREFIX`], [`IN_INTERFACE`], [`IN_ALL`], or 0 for no parent.
    pub scope: u8,
    /// Bits of the address, for [`IN_PREFIX`].
    pub prefix: u8,
}
boundary!(Parent, size 4);

/// [`Parent::scope`]: the sources of one prefix.
pub const IN_PREFIX: u8 = 1;
/// [`Parent::scope`]: the sources that arrive on one interface.
pub const IN_INTERFACE: u8 = 2;
/// [`Parent::scope`]: all sources.
pub const IN_ALL: u8 = 3;
