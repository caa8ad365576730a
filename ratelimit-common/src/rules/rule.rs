//! A rule: the policy of a source or a prefix, its origin and its end.

use crate::{boundary, limits::policy::PolicyId};

/// [`Rule::expires`] of a rule that stays.
pub const NEVER: u64 = u64::MAX;

/// One entry of the rule maps.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Policy of every source that the rule matches.
    pub policy: PolicyId,
    /// Bits of the rule's prefix, which a lookup in a prefix map does not return.
    pub prefix: u8,
    /// Origin of the rule: [`COMMAND`], [`SSH`], [`BANNED`] or [`CONFIG`].
    pub origin: u8,
    /// Zero.
    pub reserved: u16,
    /// Nanoseconds of the monotonic clock at which the rule expires; [`NEVER`] if it stays.
    pub expires: u64,
}
boundary!(Rule, size 16);

/// [`Rule::origin`] of a rule that was set by command.
pub const COMMAND: u8 = 1;
/// [`Rule::origin`] of the rule that keeps the operator's own SSH session open.
pub const SSH: u8 = 2;
/// [`Rule::origin`] of a ban, which the program itself has set.
pub const BANNED: u8 = 3;
/// [`Rule::origin`] of a rule that a configuration file asks for.
pub const CONFIG: u8 = 4;
