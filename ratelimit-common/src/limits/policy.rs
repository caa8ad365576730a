//! Policies: the limits and the actions for a source, in numbers that the kernel side only adds and compares.
//!
//! Policies share one unit of time, so a changed limit reads the state of the previous one unchanged. Debt above the
//! largest debt of the new limit is cut down to its burst. So no source waits for the end of an old, slower limit.
//!
//! A policy with bursts of at least a hundred ticks has the flag [`COARSE`]. It goes by the kernel's ticks, with one
//! tick subtracted from its burst, so that the bound holds.

use crate::{
    boundary,
    identity::{parent::Parent, source::IPV4, text::Text},
    limits::algorithm::Algorithm,
    maps::{levels::LANES, names::POLICIES_MAX},
    meters::{
        gcra::{self, Units},
        meter::Meter,
        window::Window,
    },
    reason::Reason,
};

/// Every packet passes.
pub const ALLOW: u32 = 1;
/// No packet passes.
pub const DENY: u32 = 2;
/// Packets pass within the limits that are on.
pub const LIMIT: u32 = 3;

/// No packet passes for a time, because the source has exceeded a limit with a ban.
pub const BAN: u32 = 4;

/// No packet passes, because the source is on a list that denies it.
pub const LISTED: u32 = 5;

/// One entry of the map of policies. The fields that every packet reads come first.
///
/// An entry in use is never written. A changed limit is another entry, so no packet reads a half-written one.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Policy {
    /// [`ALLOW`], [`DENY`], [`LIMIT`], [`BAN`], [`LISTED`], or 0 for a free entry.
    pub kind: u32,
    /// A sum of [`HAS_PARENTS`], [`COARSE`], [`SECOND_OF_PACKETS`] and [`SPARES_NONE`], and the [lane](Self::lane).
    pub flags: u32,
    /// The limit of packets, by buckets; a burst of 0 means none.
    pub packets: Meter,
    /// The limit of bytes, or a second one of packets, by buckets; a burst of 0 means none.
    pub second: Meter,
    /// Both limits by windows or sliding logs, in the same order.
    pub windows: [Window; 2],
    /// Number of the [`Algorithm`].
    pub algorithm: u8,
    /// Action for packets over the limit: [`DROP`], [`SHADOW`] or [`REJECT`].
    pub over_limit: u8,
    /// Not 0 if packets over the limit pass while their interface has room.
    pub elastic: u8,
    /// Hundredths of the limit that pass above it. A second meter limits them, so the reason *within-soft* also counts
    /// permanent excess, and not only the rest of a burst.
    pub soft: u8,
    /// Policy of those hundredths: limits of the same algorithm and nothing else. 0 means none.
    pub allowance: PolicyId,
    /// Parents that must admit the packet too, for IPv4 and for IPv6.
    pub parents: [[Parent; MOST_PARENTS]; 2],
    /// Ban of sources that exceed a limit.
    pub ban: Ban,
    /// The limits as the operator gave them, for listing.
    pub given: Given,
    /// The name of the policy in a configuration file. Equal limits with different names are different policies.
    pub name: Name,
}
boundary!(Policy, size 256);

/// The most bytes of the name of a policy.
pub const NAME_BYTES: usize = 32;

/// The name of a policy. Empty if it has none.
pub type Name = Text<NAME_BYTES>;

/// [`Policy::flags`]: the policy has parents.
pub const HAS_PARENTS: u32 = 1;
/// [`Policy::flags`]: the coarse clock suffices. See [`Policy::by_ticks`].
pub const COARSE: u32 = 2;
/// [`Policy::flags`]: the second limit counts packets too, and not bytes.
pub const SECOND_OF_PACKETS: u32 = 4;
/// [`Policy::flags`]: the policy also denies what this host [spares](crate::rules::spared).
pub const SPARES_NONE: u32 = 8;
/// [`Policy::flags`]: place of the [lane](crate::maps::levels).
const LANE_SHIFT: u32 = 8;

/// [`Policy::over_limit`]: the packet is dropped.
pub const DROP: u8 = 0;
/// [`Policy::over_limit`]: the packet passes, and is counted under the reason of its refusal.
pub const SHADOW: u8 = 1;
/// [`Policy::over_limit`]: the packet is dropped, and its sender gets a reply.
pub const REJECT: u8 = 2;

/// Largest cost of a packet in limits of packets. At the slowest rate, so many fit the longest debt.
pub const MOST_COST: u32 = 50;

/// Ban of sources that exceed a limit.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ban {
    /// Nanoseconds of the first ban; 0 means no ban.
    pub time: u64,
    /// Nanoseconds of the longest ban. The time doubles for a source that is banned again within this time.
    pub most: u64,
    /// Packets that must be dropped within a minute. In a policy of kind [`LISTED`], the number of the list.
    pub after: u32,
    /// Zero.
    pub reserved: u32,
}
boundary!(Ban, size 24);

/// Ticks of the coarse clock that a burst or a window must span. The clock may lag by one tick, which is subtracted
/// from the burst: at most a hundredth of it.
pub const TICKS_OF_A_BURST: u64 = 100;

/// Largest number of parents of one packet.
pub const MOST_PARENTS: usize = 2;

/// The limits as the operator gave them. Zero means not given.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Given {
    /// Packets per period.
    pub packets: u64,
    /// Nanoseconds.
    pub packets_period: u64,
    /// Bytes or, with [`SECOND_OF_PACKETS`], packets per period.
    pub second: u64,
    /// Nanoseconds.
    pub second_period: u64,
    /// Packets of the burst.
    pub burst: u64,
}
boundary!(Given, size 40);

/// A policy's slot in the map of policies.
pub type PolicyId = u32;

/// Slot of [`Policy::UNLIMITED`], in every instance.
pub const UNLIMITED_ID: PolicyId = 0;
/// Slot of [`Policy::ALLOWED`], in every instance.
pub const ALLOWED_ID: PolicyId = 1;
/// Slot of [`Policy::DENIED`], in every instance.
pub const DENIED_ID: PolicyId = 2;
/// Slot of [`Policy::BANNED`], in every instance.
pub const BANNED_ID: PolicyId = 3;
/// Slot of [`Policy::FORCED`]. It is the last one, because earlier versions use the slots from the first on. It is empty
/// until a rule needs it.
pub const FORCED_ID: PolicyId = POLICIES_MAX - 1;

impl Policy {
    /// Every packet passes, as within a limit that is never reached.
    pub const UNLIMITED: Self = Self::without_limits(LIMIT);
    /// Every packet passes.
    pub const ALLOWED: Self = Self::without_limits(ALLOW);
    /// No packet passes.
    pub const DENIED: Self = Self::without_limits(DENY);
    /// No packet passes for a time.
    pub const BANNED: Self = Self::without_limits(BAN);
    /// No packet passes, whatever this host spares.
    pub const FORCED: Self = Self { flags: SPARES_NONE, ..Self::DENIED };

    /// No packet passes, because of the list with this number.
    #[must_use]
    pub const fn listed(number: u32) -> Self {
        let policy = Self::without_limits(LISTED);
        Self { ban: Ban { after: number, ..policy.ban }, ..policy }
    }

    /// Returns whether it is a rule *deny*, of any kind. A ban and a list are none.
    #[must_use]
    pub const fn is_deny(&self) -> bool {
        self.kind == DENY
    }

    /// Returns the number of the list that denies the sources of this policy.
    #[inline(always)]
    #[must_use]
    pub const fn list(&self) -> u32 {
        self.ban.after
    }

    /// Returns the parents for sources of this [family](crate::identity::source::Source::family).
    #[inline(always)]
    #[must_use]
    pub const fn parents(&self, family: u8) -> &[Parent; MOST_PARENTS] {
        let [v4, v6] = &self.parents;
        if family == IPV4 { v4 } else { v6 }
    }

    /// Returns whether the policy has parents.
    #[inline(always)]
    #[must_use]
    pub const fn has_parents(&self) -> bool {
        self.flags & HAS_PARENTS != 0
    }

    /// Returns the [lane](crate::maps::levels) whose levels and budget the policy uses.
    #[inline(always)]
    #[must_use]
    pub const fn lane(&self) -> u32 {
        self.flags >> LANE_SHIFT & (LANES - 1)
    }

    /// Returns this policy in another lane.
    #[must_use]
    pub const fn in_lane(self, lane: u32) -> Self {
        Self { flags: self.flags & !((LANES - 1) << LANE_SHIFT) | lane << LANE_SHIFT, ..self }
    }

    /// Returns whether the policy limits a source by any algorithm. Parents do not count.
    #[inline(always)]
    #[must_use]
    pub const fn has_limits(&self) -> bool {
        let [packets, second] = &self.windows;
        self.packets.is_on() || self.second.is_on() || packets.is_on() || second.is_on()
    }

    /// Returns whether the policy limits bytes by any algorithm. Parents do not count.
    #[must_use]
    pub const fn limits_bytes(&self) -> bool {
        self.flags & SECOND_OF_PACKETS == 0 && (self.second.is_on() || self.windows[1].is_on())
    }

    /// Returns whether cells can decide about its packets.
    #[inline(always)]
    #[must_use]
    pub const fn is_bucket(&self) -> bool {
        self.algorithm <= Algorithm::LeakyBucket as u8
    }

    /// Returns the amount in the second limit of a packet with `length` bytes and this cost.
    #[inline(always)]
    #[must_use]
    pub const fn second_amount(&self, length: u32, cost: u32) -> u32 {
        if self.flags & SECOND_OF_PACKETS == 0 { length } else { cost }
    }

    /// Returns the reason of a packet over the second limit.
    #[inline(always)]
    #[must_use]
    pub const fn second_reason(&self) -> Reason {
        if self.flags & SECOND_OF_PACKETS == 0 { Reason::OverBytes } else { Reason::OverPackets }
    }

    /// Returns this policy for a clock that lags by up to one `tick`, if every burst and every window spans enough
    /// ticks. The burst loses one tick, except for the one packet that the bound allows anyway. A sliding log looks
    /// back one tick further. A `tick` of 0 means that there is no such clock.
    ///
    /// The parents of a policy by ticks must be policies by ticks.
    #[must_use]
    pub fn by_ticks(self, tick: Units) -> Self {
        let spans = |meter: &Meter| !meter.is_on() || meter.burst / TICKS_OF_A_BURST >= tick;
        let lasts = |window: &Window| !window.is_on() || gcra::units(window.length / TICKS_OF_A_BURST) >= tick;
        let spans_all = spans(&self.packets) && spans(&self.second) && self.windows.iter().all(lasts);
        if tick == 0 || !(self.has_limits() || self.has_parents()) || !spans_all {
            return self;
        }
        let less = |meter: Meter| meter.shortened(tick.saturating_sub(meter.cost_of(1)));
        let second = if self.flags & SECOND_OF_PACKETS == 0 { self.second.shortened(tick) } else { less(self.second) };
        let mut windows = self.windows;
        if self.algorithm == Algorithm::SlidingLog as u8 {
            for window in windows.iter_mut().filter(|window| window.is_on()) {
                *window = Window::new(window.limit, window.length + (tick >> gcra::FRACTION_BITS), window.phase);
            }
        }
        Self { flags: self.flags | COARSE, packets: less(self.packets), second, windows, ..self }
    }

    /// Returns this policy with cell shares so small that a packet of the largest cost, `most`, still fits beside them.
    #[must_use]
    pub fn for_costs(self, most: u32) -> Self {
        let second = if self.flags & SECOND_OF_PACKETS == 0 { self.second } else { self.second.for_cost(most) };
        Self { packets: self.packets.for_cost(most), second, ..self }
    }

    const fn without_limits(kind: u32) -> Self {
        let meter = Meter { cost: 0, burst: 0, ceiling: 0, cell_share: 0, shift: 0, reserved: 0 };
        let given = Given { packets: 0, packets_period: 0, second: 0, second_period: 0, burst: 0 };
        let none = Parent { policy: 0, scope: 0, prefix: 0 };
        Self {
            kind,
            flags: 0,
            packets: meter,
            second: meter,
            windows: [Window::new(0, 0, 0); 2],
            algorithm: 0,
            over_limit: DROP,
            elastic: 0,
            soft: 0,
            allowance: 0,
            parents: [[none; MOST_PARENTS]; 2],
            ban: Ban { time: 0, most: 0, after: 0, reserved: 0 },
            given,
            name: Name::EMPTY,
        }
    }
}
