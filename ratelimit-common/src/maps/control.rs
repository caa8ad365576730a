//! The one entry through which the user side steers the program.

use crate::{boundary, meters::gcra::Units};

/// Changes with every layout in this crate, and is checked before any pinned map is trusted.
pub const ABI_VERSION: u32 = 25;

/// The entry of the control map. The fields that every packet reads come first, in two cache lines.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Control {
    /// [`ABI_VERSION`] of the program that made the maps. First, so that every version finds it.
    pub abi: u32,
    /// Number of changes of the rules; 26 bits count. A resolution of another generation is stale.
    pub generation: u32,
    /// [Lengths](crate::identity::narrow::Lengths) of IPv6 prefixes that are longer than `ipv6_prefix` and have a rule.
    /// Such a prefix is a source of its own.
    pub narrow_rules: u32,
    /// Bits of an IPv6 address that make a source. A copy of the program's constant for the user side.
    pub ipv6_prefix: u32,
    /// Drawn at random with the instance. See [`Source::hash`](crate::identity::source::Source::hash).
    pub seed: [u64; 4],
    /// Nanoseconds between two ticks of the coarse clock; 0 if only the precise one is used.
    pub tick: u64,
    /// Nanoseconds of the monotonic clock at the coarse clock's tick 0, wrapping.
    pub tick_zero: u64,
    /// The [largest debt](crate::meters::stages::largest_debt) of the limits in use. It is 0 only before the first one.
    pub largest_debt: Units,
    /// Features of the running program: a sum of the constants below.
    pub features: u32,
    /// Class that a service got last. The next service gets another one as long as possible, since cells keep the debt
    /// of the old one.
    pub last_class: u32,
    /// Nanoseconds of the monotonic clock from which on the next command removes expired rules; 0 while no rule can
    /// expire.
    pub clear_after: u64,
    /// The time in nanoseconds while time is injected.
    pub clock: u64,
    /// The coarse clock in nanoseconds while time is injected.
    pub coarse_clock: u64,
    /// Each CPU's budget for new buckets.
    pub admission: Budget,
    /// Limit of all unknown sources together. One unit is a batch, which a CPU takes at a time. If the program learns
    /// the rate, versions without this feature use this one.
    pub unknown: Budget,
    /// Packets in such a batch.
    pub unknown_batch: u64,
    /// Budget for replies to packets over a limit, all CPUs together.
    pub replies: Budget,
    /// Packets of this host's own connections that pass although they would be refused, for each source. See
    /// [`crate::cells::own_connection`].
    pub own: Budget,
    /// Budget for SYN cookies, all CPUs together.
    pub proofs: Budget,
    /// Nanoseconds of the monotonic clock when the instance was created.
    pub created: u64,
    /// Difference between nanoseconds since 1970 and the monotonic clock at that moment. Windows begin with the hours
    /// of a day.
    pub wall: u64,
    /// Nanoseconds that the host was suspended before the ends of rules and bans were computed.
    pub suspended: u64,
    /// Largest cost of a packet of any service.
    pub most_cost: u32,
    /// Entries of the map of sliding logs as soon as a limit keeps sliding logs.
    pub sliding_logs: u32,
    /// Generation of the rules from which on cells' shares are smaller than before; 26 bits count. A bucket that was
    /// resolved earlier has not paid the debt above the new share yet.
    pub cell_shares_since: u32,
    /// A number of the pinned maps whose layouts a command has checked; 0 if none has. Only the user side reads it.
    pub seal: u32,
    /// Not 0 while an upgrade has left steps to do. The next command does them.
    pub unfinished: u32,
    /// A number of the build whose program is in force; 0 if it is unknown. Only the user side reads it.
    pub build: u32,
    /// [Slots](crate::rules::list::Slots) of the lists in force: the first in even generations of the rules, the second
    /// in odd ones. They differ only while a list changes.
    pub lists: [u64; 2],
    /// Largest TCP segments over IPv4 and IPv6 that all routes accept; 0 if none says less than the interfaces.
    pub segments: [u32; 2],
}
boundary!(Control, size 304);

impl Control {
    /// Returns the slots in force in a generation of the rules. A change of lists prepares the next generation, so that
    /// it acts with the generation's number, at one moment.
    #[must_use]
    pub const fn lists_in(&self, generation: u32) -> u64 {
        self.lists[(generation & 1) as usize]
    }

    /// Returns the slots that the next generation has. Outside of a change these are in force.
    #[must_use]
    pub const fn next_lists(&self) -> u64 {
        self.lists_in(self.generation.wrapping_add(1))
    }

    /// Returns the entry with these slots in the next generation.
    #[must_use]
    pub const fn with_next_lists(mut self, slots: u64) -> Self {
        self.lists[(self.generation.wrapping_add(1) & 1) as usize] = slots;
        self
    }

    /// Returns the entry without a change of lists that was prepared: the next generation has the lists in force.
    #[must_use]
    pub const fn with_same_lists(self) -> Self {
        self.with_next_lists(self.lists_in(self.generation))
    }
}

/// Largest number of generations that [`Control::cell_shares_since`] stays behind. Further back it would seem to be
/// ahead one day.
const OLDEST_SHARES: u32 = 1 << 24;

impl Control {
    /// Returns the entry with the next generation of the rules.
    #[must_use]
    pub const fn renewed(self) -> Self {
        let generation = self.generation.wrapping_add(1);
        let is_old = generation.wrapping_sub(self.cell_shares_since) > OLDEST_SHARES;
        let cell_shares_since = if is_old { generation.wrapping_sub(OLDEST_SHARES) } else { self.cell_shares_since };
        Self { generation, cell_shares_since, ..self }
    }
}

/// A rate in the form of [`crate::meters::gcra`], and as the operator gave it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Cost of one.
    pub cost: Units,
    /// Debt that its burst allows.
    pub burst: Units,
    /// Number per second; 0 means no budget.
    pub per_second: u64,
}
boundary!(Budget, size 24);

/// Name of aya-log's constant (`u8`) with the most verbose level that is logged; 0 is off.
pub const LOG_LEVEL: &str = "AYA_LOG_LEVEL";
/// Name of the XDP program.
pub const PROGRAM: &str = "ratelimit";
/// Name of the program for kernels without frames of several buffers (before 5.18).
pub const PROGRAM_LINEAR: &str = "ratelimit_linear";
/// Name of the XDP program for interfaces without Ethernet headers.
pub const PROGRAM_RAW: &str = "ratelimit_raw";
/// Name of the same for kernels without frames of several buffers.
pub const PROGRAM_RAW_LINEAR: &str = "ratelimit_raw_linear";

/// Name of the program that shows the kernel's clocks to the user side.
pub const PROGRAM_TICKS: &str = "ticks";

/// [`Control::features`]: rules for services exist.
pub const FEATURE_SERVICES: u32 = 1;
/// [`Control::features`]: policies have parents.
pub const FEATURE_PARENTS: u32 = 2;
/// [`Control::features`]: malformed and truncated packets pass within the limits of their source.
pub const FEATURE_PASS_MALFORMED: u32 = 4;

/// [`Control::features`]: cells stand in front of the buckets.
pub const FEATURE_FRONT: u32 = 8;
/// [`Control::features`]: samples of sources within their limit are recorded.
pub const FEATURE_SAMPLE: u32 = 16;
/// [`Control::features`]: unknown sources are limited.
pub const FEATURE_UNKNOWN: u32 = 32;
/// [`Control::features`]: packets over a limit may get a reply.
pub const FEATURE_REJECT: u32 = 64;

/// [`Control::features`]: limits may count in windows.
pub const FEATURE_WINDOWS: u32 = 128;
/// [`Control::features`]: limits may keep sliding logs.
pub const FEATURE_SLIDING_LOGS: u32 = 256;
/// [`Control::features`]: limits may be soft.
pub const FEATURE_SOFT: u32 = 512;
/// [`Control::features`]: limits may be elastic, and pass everything while the interface has room.
pub const FEATURE_ELASTIC: u32 = 1_024;
/// [`Control::features`]: limits may have another action than drop.
pub const FEATURE_ACTIONS: u32 = 2_048;
/// [`Control::features`]: packets of some services count as more than one.
pub const FEATURE_COSTS: u32 = 4_096;
/// [`Control::features`]: every packet passes, and is counted under the reason of its refusal.
pub const FEATURE_SHADOW: u32 = 8_192;
/// [`Control::features`]: packets are counted by interface.
pub const FEATURE_INTERFACES: u32 = 16_384;
/// [`Control::features`]: limits may ban sources, or bans are in force.
pub const FEATURE_BANS: u32 = 32_768;
/// [`Control::features`]: limits other than the default use [lanes](crate::maps::levels).
pub const FEATURE_LANES: u32 = 65_536;
/// [`Control::features`]: limits may count bytes.
pub const FEATURE_BYTES: u32 = 131_072;
/// [`Control::features`]: interfaces without Ethernet headers may be attached. They have a program of their own.
pub const FEATURE_RAW_IP: u32 = 262_144;
/// [`Control::features`]: packets of this host's own connections are spared.
pub const FEATURE_OWN: u32 = 1 << 19;
/// [`Control::features`]: there are lists.
pub const FEATURE_LISTS: u32 = 1 << 20;
/// [`Control::features`]: single interfaces may be in shadow. They have programs of their own.
pub const FEATURE_SHADOW_PROGRAMS: u32 = 1 << 21;
/// [`Control::features`]: sources may have [leases](crate::fleet::lease).
pub const FEATURE_LEASES: u32 = 1 << 22;
/// [`Control::features`]: the hosts of a fleet divide the burst of a new source.
pub const FEATURE_DIVIDE: u32 = 1 << 23;
/// [`Control::features`]: SYNs of unknown sources over their rate get a SYN cookie.
pub const FEATURE_PROVE_TCP: u32 = 1 << 24;

/// [`Control::features`]: this host [spares](crate::rules::spared) its own network.
pub const FEATURE_SPARE: u32 = 1 << 26;

/// [`Control::features`]: the program learns the [rate](crate::cells::learned_rate) of unknown sources.
pub const FEATURE_UNKNOWN_LEARNED: u32 = 1 << 25;

/// Default number of new buckets per second and CPU: at 650 ns each, less than a hundredth of its time.
pub const ADMISSIONS_DEFAULT: u64 = 10_000;
/// Number of passed packets for one sample.
pub const SAMPLE_RATE: u64 = 256;
/// Divisor of the admission budget for records.
pub const SAMPLE_SHARE: u64 = 16;
/// Divisor of the admission budget for each [lane](crate::maps::levels) but the first.
pub const LANE_SHARE: u64 = 4;

/// Default number of replies per second to packets over a limit, all CPUs together.
pub const REPLIES_DEFAULT: u64 = 100;

/// Default number of SYN cookies per second, all CPUs together: as many SYNs as one CPU can receive. With fewer, visitors
/// wait for their turn while the CPU has time. At an estimated 250 ns each, they take half of one CPU's time, and
/// 1.4 Gbit/s.
pub const PROOFS_DEFAULT: u64 = 2_000_000;

/// Default number of packets per second of a source that are spared because they belong to this host's own connections:
/// more than 10 Gbit/s of full frames.
pub const OWN_DEFAULT: u64 = 1_000_000;

/// Default of [`Constant::Ipv6Prefix`]: the prefix of one link (RFC 4291). A customer line has several (RIPE-690).
///
/// [`Constant::Ipv6Prefix`]: crate::maps::constants::Constant::Ipv6Prefix
pub const IPV6_PREFIX_DEFAULT: u32 = 64;
