//! What operators and the daemon have changed. Only commands write it, and only they read it.

use crate::{boundary, identity::text::Text};

/// The most bytes of the name of who made a change.
pub const BY_BYTES: usize = 64;
/// The most bytes of what was changed.
pub const WHAT_BYTES: usize = 192;

/// One change. Its key in the map is the time since 1970 in nanoseconds.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Who made it.
    pub by: Text<BY_BYTES>,
    /// The command, or what the daemon has done.
    pub what: Text<WHAT_BYTES>,
}
boundary!(Text<WHAT_BYTES>, size 192);
boundary!(Change, size 256);
