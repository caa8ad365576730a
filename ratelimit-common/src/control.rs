//! The one entry through which the user side steers the program.

use crate::boundary;

/// Changes with every layout in this crate, and is checked before any pinned map is trusted.
pub const ABI_VERSION: u32 = 2;

/// The entry of the control map.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Control {
    /// [`ABI_VERSION`] of the program that made the maps. First, so that every version finds it.
    pub abi: u32,
    /// Counts changes of the rules; 26 bits count. A bucket that was resolved in another generation asks for its policy again.
    pub generation: u32,
    /// Not 0 if a rule exists for an IPv6 prefix longer than `ipv6_prefix`; such a prefix is a source of its own.
    pub narrow_rules: u32,
    /// Bits of an IPv6 address that make a source; the program's constant, for the user side to read.
    pub ipv6_prefix: u32,
    /// What the running program was loaded with: a sum of [`FEATURE_SERVICES`], [`FEATURE_PARENTS`] and [`FEATURE_PASS_MALFORMED`].
    pub features: u32,
    /// Zero.
    pub reserved: u32,
    /// Nanoseconds of the monotonic clock from which on the next command clears expired rules away; 0 while none can expire.
    pub clear_after: u64,
    /// The time in nanoseconds while [`INJECTED_CLOCK`] is on.
    pub clock: u64,
}
boundary!(Control, size 40);

/// Name of the program's constant (`u32`) that is not 0 where time comes from [`Control::clock`], as tests need it.
pub const INJECTED_CLOCK: &str = "INJECTED_CLOCK";
/// Name of the program's constant (`u32`) that is not 0 where packets are told apart by service.
pub const SERVICES: &str = "SERVICES_ON";
/// Name of the program's constant (`u32`) that is not 0 where policies have parents.
pub const PARENTS: &str = "PARENTS_ON";
/// Name of the program's constant (`u32`) that is not 0 where malformed and truncated packets pass as far as their source may.
pub const PASS_MALFORMED: &str = "PASS_MALFORMED";
/// Name of the program's constant (`u32`) with the bits of an IPv6 address that make a source.
pub const IPV6_PREFIX: &str = "IPV6_PREFIX";
/// Name of aya-log's constant (`u8`) with the most verbose level that is logged; 0 is off.
pub const LOG_LEVEL: &str = "AYA_LOG_LEVEL";
/// Name of the XDP program.
pub const PROGRAM: &str = "ratelimit";
/// Name of the same program for kernels that have no frames of several buffers (before 5.18).
pub const PROGRAM_LINEAR: &str = "ratelimit_linear";
/// Name of the same program for benchmarks: it drops every packet, whatever it has decided.
pub const PROGRAM_BENCH: &str = "ratelimit_bench";

/// [`Control::features`]: packets are told apart by service.
pub const FEATURE_SERVICES: u32 = 1;
/// [`Control::features`]: policies have parents.
pub const FEATURE_PARENTS: u32 = 2;
/// [`Control::features`]: malformed and truncated packets pass as far as their source may.
pub const FEATURE_PASS_MALFORMED: u32 = 4;

/// [`IPV6_PREFIX`] unless told otherwise: what one customer line is commonly given (RIPE-690).
pub const IPV6_PREFIX_DEFAULT: u32 = 64;
