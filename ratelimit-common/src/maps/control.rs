//! The one entry through which the user side steers the program.

use crate::{boundary, meters::gcra::Units};

/// Changes with every layout in this crate, and is checked before any pinned map is trusted.
pub const ABI_VERSION: u32 = 11;

/// The entry of the control map. What every packet reads comes first, in two cache lines.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Control {
    /// [`ABI_VERSION`] of the program that made the maps. First, so that every version finds it.
    pub abi: u32,
    /// Counts changes of the rules; 26 bits count. What was resolved in another generation is asked for again.
    pub generation: u32,
    /// Not 0 if a rule exists for an IPv6 prefix longer than `ipv6_prefix`; such a prefix is a source of its own.
    pub narrow_rules: u32,
    /// Bits of an IPv6 address that make a source; the program's constant, for the user side to read.
    pub ipv6_prefix: u32,
    /// Drawn at random with the instance. See [`Source::hash`](crate::identity::source::Source::hash).
    pub seed: [u64; 4],
    /// Nanoseconds between two ticks of the coarse clock; 0 if only the precise one is used.
    pub tick: u64,
    /// Nanoseconds of the monotonic clock at the coarse clock's tick 0, wrapping.
    pub tick_zero: u64,
    /// The [largest debt](crate::meters::stages::largest_debt) of the limits in use.
    pub largest_debt: Units,
    /// What the running program was loaded with: a sum of the constants below.
    pub features: u32,
    /// The class that was given to a service last: the next one gets another as long as possible, since cells keep what it owed.
    pub last_class: u32,
    /// Nanoseconds of the monotonic clock from which on the next command clears expired rules away; 0 while none can expire.
    pub clear_after: u64,
    /// The time in nanoseconds while [`INJECTED_CLOCK`] is on.
    pub clock: u64,
    /// What the coarse clock reads then.
    pub coarse_clock: u64,
    /// Each CPU's budget for new buckets.
    pub admission: Budget,
    /// What all unknown sources together may send; one unit is a batch, which a CPU takes at a time.
    pub unknown: Budget,
    /// Packets in such a batch.
    pub unknown_batch: u64,
    /// Answers to packets over a limit, all CPUs together.
    pub replies: Budget,
    /// Nanoseconds of the monotonic clock when the instance was made.
    pub created: u64,
    /// What was to be added to the monotonic clock then to get nanoseconds since 1970: windows begin with the hours of a day.
    pub wall: u64,
    /// The most that a packet of any service counts as.
    pub most_cost: u32,
    /// Entries that the map of logs has as soon as a limit keeps logs.
    pub sliding_logs: u32,
    /// The generation of the rules from which on the front part of a burst is smaller than before; 26 bits count. A bucket that was resolved in
    /// an earlier one has not paid yet what its cell has no room for any more.
    pub fronts_since: u32,
    /// Zero.
    pub reserved: u32,
}
boundary!(Control, size 216);

/// Generations that [`Control::fronts_since`] stays behind at most: further back it would seem to be ahead one day.
const OLDEST_FRONTS: u32 = 1 << 24;

impl Control {
    /// The same with the next generation of the rules.
    #[must_use]
    pub const fn renewed(self) -> Self {
        let generation = self.generation.wrapping_add(1);
        let is_old = generation.wrapping_sub(self.fronts_since) > OLDEST_FRONTS;
        let fronts_since = if is_old { generation.wrapping_sub(OLDEST_FRONTS) } else { self.fronts_since };
        Self { generation, fronts_since, ..self }
    }
}

/// A rate as [`crate::meters::gcra`] wants it, and as the operator gave it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Cost of one.
    pub cost: Units,
    /// Debt that its burst allows.
    pub capacity: Units,
    /// How many per second; 0 is no budget.
    pub per_second: u64,
}
boundary!(Budget, size 24);

/// Name of the program's constant (`u32`) that is not 0 where time comes from [`Control::clock`], as tests need it.
pub const INJECTED_CLOCK: &str = "INJECTED_CLOCK";
/// Name of the program's constant (`u32`) that is not 0 where packets are told apart by service.
pub const SERVICES: &str = "SERVICES_ON";
/// Name of the program's constant (`u32`) that is not 0 where policies have parents.
pub const PARENTS: &str = "PARENTS_ON";
/// Name of the program's constant (`u32`) that is not 0 where malformed and truncated packets pass as far as their source may.
pub const PASS_MALFORMED: &str = "PASS_MALFORMED";
/// Name of the program's constant (`u32`) with the number of cells, a power of two; 0 where every source has its own bucket.
pub const FRONT_CELLS: &str = "FRONT_CELLS";
/// Name of the program's constant (`u32`) that is not 0 where some of what exceeds nothing is recorded.
pub const SAMPLE: &str = "SAMPLE_ON";
/// Name of the program's constant (`u32`) that is not 0 where unknown sources are limited.
pub const UNKNOWN: &str = "UNKNOWN_ON";
/// Name of the program's constant (`u32`) that is not 0 where limits may count in windows.
pub const WINDOWS: &str = "WINDOWS_ON";
/// Name of the program's constant (`u32`) that is not 0 where limits may keep logs.
pub const SLIDING_LOGS: &str = "SLIDING_LOGS_ON";
/// Name of the program's constant (`u32`) that is not 0 where a limit may let hundredths more pass.
pub const SOFT: &str = "SOFT_ON";
/// Name of the program's constant (`u32`) that is not 0 where interfaces have a capacity.
pub const ELASTIC: &str = "ELASTIC_ON";
/// Name of the program's constant (`u32`) that is not 0 where something else than to drop may become of what is over a limit.
pub const ACTIONS: &str = "ACTIONS_ON";
/// Name of the program's constant (`u32`) that is not 0 where packets of some services count as more than one.
pub const COSTS: &str = "COSTS_ON";
/// Name of the program's constant (`u32`) that is not 0 where every packet passes, and is counted as what would have become of it.
pub const SHADOW: &str = "SHADOW_ON";
/// Name of the program's constant (`u32`) that is not 0 where packets over a limit may be answered.
pub const REJECT: &str = "REJECT_ON";
/// Name of the program's constant (`u32`) that is not 0 where packets are counted by interface.
pub const INTERFACES: &str = "INTERFACES_ON";
/// Name of the program's constant (`u32`) that is not 0 where parents or elastic limits ask which interface a packet came in by.
pub const INTERFACE_MATTERS: &str = "INTERFACE_MATTERS";
/// Name of the program's constant (`u32`) that is not 0 while buckets and logs move from maps of another size.
pub const MOVING: &str = "MOVING_ON";
/// Name of the program's constant (`u32`) with the number of cells before, while that changes; 0 otherwise.
pub const OLD_CELLS: &str = "OLD_CELLS";
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

/// Name of the program that shows the kernel's clocks to the user side.
pub const PROGRAM_TICKS: &str = "ticks";

/// [`Control::features`]: packets are told apart by service.
pub const FEATURE_SERVICES: u32 = 1;
/// [`Control::features`]: policies have parents.
pub const FEATURE_PARENTS: u32 = 2;
/// [`Control::features`]: malformed and truncated packets pass as far as their source may.
pub const FEATURE_PASS_MALFORMED: u32 = 4;

/// [`Control::features`]: cells stand in front of the buckets.
pub const FEATURE_FRONT: u32 = 8;
/// [`Control::features`]: some of what exceeds nothing is recorded.
pub const FEATURE_SAMPLE: u32 = 16;
/// [`Control::features`]: unknown sources are limited.
pub const FEATURE_UNKNOWN: u32 = 32;
/// [`Control::features`]: packets over a limit may be answered.
pub const FEATURE_REJECT: u32 = 64;

/// [`Control::features`]: limits may count in windows.
pub const FEATURE_WINDOWS: u32 = 128;
/// [`Control::features`]: limits may keep logs.
pub const FEATURE_SLIDING_LOGS: u32 = 256;
/// [`Control::features`]: a limit may let hundredths more pass.
pub const FEATURE_SOFT: u32 = 512;
/// [`Control::features`]: a limit may let everything pass while its interface has room.
pub const FEATURE_ELASTIC: u32 = 1_024;
/// [`Control::features`]: something else than to drop may become of what is over a limit.
pub const FEATURE_ACTIONS: u32 = 2_048;
/// [`Control::features`]: packets of some services count as more than one.
pub const FEATURE_COSTS: u32 = 4_096;
/// [`Control::features`]: every packet passes, and is counted as what would have become of it.
pub const FEATURE_SHADOW: u32 = 8_192;
/// [`Control::features`]: packets are counted by interface.
pub const FEATURE_INTERFACES: u32 = 16_384;

/// New buckets per second and CPU unless told otherwise: at 650 ns each, less than a hundredth of its time.
pub const ADMISSIONS_DEFAULT: u64 = 10_000;
/// One of so many packets that pass is recorded.
pub const SAMPLE_RATE: u64 = 256;
/// The part of the admissions that records may use.
pub const SAMPLE_SHARE: u64 = 16;

/// Answers to packets over a limit per second, all CPUs together, unless told otherwise.
pub const REPLIES_DEFAULT: u64 = 100;

/// [`IPV6_PREFIX`] unless told otherwise: what one customer line is commonly given (RIPE-690).
pub const IPV6_PREFIX_DEFAULT: u32 = 64;
