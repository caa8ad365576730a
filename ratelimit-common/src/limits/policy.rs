//! What is done with a source's packets, worked out so that the kernel side only adds and compares.

use crate::{
    boundary,
    identity::source::IPV4,
    limits::algorithm::Algorithm,
    meters::{
        gcra::{self, Answer, Units},
        state,
        window::Window,
    },
    reason::Reason,
};

/// Every packet passes.
pub const ALLOW: u32 = 1;
/// No packet passes.
pub const DENY: u32 = 2;
/// Packets pass within the limits of packets and bytes, as far as they are on.
pub const LIMIT: u32 = 3;

/// No packet passes for a time, because the source has exceeded a limit that says so.
pub const BAN: u32 = 4;

/// The largest frame that can arrive: 64 KiB with everything that receive offload may join.
pub const MAX_FRAME: u32 = 1 << 16;

/// One entry of the map of policies. What a packet reads comes first.
///
/// An entry in use is never written: a changed limit is another entry, so no packet sees half of one.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Policy {
    /// [`ALLOW`], [`DENY`], [`LIMIT`], [`BAN`], or 0 for an entry that is free.
    pub kind: u32,
    /// A sum of [`HAS_PARENTS`], [`COARSE`] and [`SECOND_OF_PACKETS`].
    pub flags: u32,
    /// The limit of packets, by buckets; zero capacity means none.
    pub packets: Meter,
    /// The limit of bytes, or a second one of packets, by buckets; zero capacity means none.
    pub second: Meter,
    /// The same limits by windows or logs, in the same order.
    pub windows: [Window; 2],
    /// [`Algorithm`]: which of both.
    pub algorithm: u8,
    /// What becomes of a packet over the limit: [`DROP`], [`SHADOW`] or [`REJECT`].
    pub over_limit: u8,
    /// Not 0 if packets over the limit pass while their interface has room.
    pub elastic: u8,
    /// Hundredths of the limit that still pass above it.
    pub soft: u8,
    /// The policy of those hundredths, which has limits of the same algorithm and nothing else; 0 is none.
    pub allowance: PolicyId,
    /// The wider limits that must agree, for IPv4 and for IPv6.
    pub parents: [[Parent; MOST_PARENTS]; 2],
    /// Who is shut out for exceeding a limit, and for how long.
    pub ban: Ban,
    /// The limits as the operator gave them, for listing.
    pub given: Given,
}
boundary!(Policy, size 224);

/// [`Policy::flags`]: there are wider limits.
pub const HAS_PARENTS: u32 = 1;
/// [`Policy::flags`]: the coarse clock will do. See [`Policy::by_ticks`].
pub const COARSE: u32 = 2;
/// [`Policy::flags`]: the second limit counts packets too, and not bytes.
pub const SECOND_OF_PACKETS: u32 = 4;

/// [`Policy::over_limit`]: it is dropped.
pub const DROP: u8 = 0;
/// [`Policy::over_limit`]: it passes, and is counted as what would have become of it.
pub const SHADOW: u8 = 1;
/// [`Policy::over_limit`]: it is dropped, and its sender is told.
pub const REJECT: u8 = 2;

/// The most that a packet of a service can count as, in limits of packets: at the slowest rate, so many fit the longest debt.
pub const MOST_COST: u32 = 50;

/// Who is shut out, and for how long.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ban {
    /// Nanoseconds the first time; 0 is not at all.
    pub time: u64,
    /// Nanoseconds at most: the time doubles for whoever is banned again within this time.
    pub most: u64,
    /// Packets that must be dropped within a minute.
    pub after: u32,
    /// Zero.
    pub reserved: u32,
}
boundary!(Ban, size 24);

/// Ticks of the coarse clock that a burst or a window must span, so that the tick by which that clock may lag, which is taken off the burst, is a
/// hundredth of it at most.
pub const TICKS_OF_A_BURST: u64 = 100;

/// Wider limits that one packet asks at most, besides its own.
pub const MOST_PARENTS: usize = 2;

/// A wider limit, with one bucket for all sources in its scope whose policy names it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Parent {
    /// Its own policy, which has limits and no parents.
    pub policy: u16,
    /// What its bucket is for: [`IN_PREFIX`], [`IN_INTERFACE`], [`IN_ALL`], or 0 for none.
    pub scope: u8,
    /// Bits of the address, for [`IN_PREFIX`].
    pub prefix: u8,
}
boundary!(Parent, size 4);

/// [`Parent::scope`]: the sources of one prefix.
pub const IN_PREFIX: u8 = 1;
/// [`Parent::scope`]: the sources that come in by one interface.
pub const IN_INTERFACE: u8 = 2;
/// [`Parent::scope`]: all sources.
pub const IN_ALL: u8 = 3;

/// One limit in units of time.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Meter {
    /// Cost of one packet or one byte, times two to the power of `shift`, halved.
    pub cost: u64,
    /// Debt that the burst allows.
    pub capacity: Units,
    /// Largest debt that one packet can leave behind.
    pub ceiling: Units,
    /// The part of the capacity that a cell admits by itself: half, or less where that would leave less than the largest packet, down to
    /// nothing. See [`crate::meters::stages`].
    pub front: Units,
    /// Binary digits of the cost's fraction. Below 64.
    pub shift: u32,
    /// Zero.
    pub reserved: u32,
}
boundary!(Meter, size 40);

/// The limits in the operator's words. Zero means not given.
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
    /// Packets that may come at once.
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

impl Policy {
    /// Every packet passes, as within a limit that is never reached.
    pub const UNLIMITED: Self = Self::without_limits(LIMIT);
    /// Every packet passes.
    pub const ALLOWED: Self = Self::without_limits(ALLOW);
    /// No packet passes.
    pub const DENIED: Self = Self::without_limits(DENY);
    /// No packet passes for a time.
    pub const BANNED: Self = Self::without_limits(BAN);

    /// The wider limits of a source of this [family](crate::identity::source::Source::family).
    #[inline(always)]
    #[must_use]
    pub const fn parents(&self, family: u8) -> &[Parent; MOST_PARENTS] {
        let [v4, v6] = &self.parents;
        if family == IPV4 { v4 } else { v6 }
    }

    /// Whether there are wider limits.
    #[inline(always)]
    #[must_use]
    pub const fn has_parents(&self) -> bool {
        self.flags & HAS_PARENTS != 0
    }

    /// Whether it limits what a source sends, by whatever algorithm; parents apart.
    #[inline(always)]
    #[must_use]
    pub const fn has_limits(&self) -> bool {
        let [packets, second] = &self.windows;
        self.packets.is_on() || self.second.is_on() || packets.is_on() || second.is_on()
    }

    /// Whether cells can be asked for it.
    #[inline(always)]
    #[must_use]
    pub const fn is_bucket(&self) -> bool {
        self.algorithm <= Algorithm::LeakyBucket as u8
    }

    /// What a packet counts as in the second limit, that has `length` bytes and costs so much as a packet.
    #[inline(always)]
    #[must_use]
    pub const fn second_amount(&self, length: u32, cost: u32) -> u32 {
        if self.flags & SECOND_OF_PACKETS == 0 { length } else { cost }
    }

    /// Why a packet is over the second limit.
    #[inline(always)]
    #[must_use]
    pub const fn second_reason(&self) -> Reason {
        if self.flags & SECOND_OF_PACKETS == 0 { Reason::OverBytes } else { Reason::OverPackets }
    }

    /// The same for a clock that lags by up to one `tick`, where every burst and every window spans enough of them: what may pass in a tick is
    /// taken off the burst, but for the one packet that the bound allows anyway, and a log looks back a tick further. 0 stands for no such clock.
    ///
    /// Parents are always asked by the precise clock.
    #[must_use]
    pub fn by_ticks(self, tick: Units) -> Self {
        let spans = |meter: &Meter| !meter.is_on() || meter.capacity / TICKS_OF_A_BURST >= tick;
        let lasts = |window: &Window| !window.is_on() || gcra::units(window.length / TICKS_OF_A_BURST) >= tick;
        let spans_all = spans(&self.packets) && spans(&self.second) && self.windows.iter().all(lasts);
        if tick == 0 || !self.has_limits() || self.has_parents() || !spans_all {
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

    /// The same where packets count as up to `most`: cells leave room for one of those.
    #[must_use]
    pub fn for_costs(self, most: u32) -> Self {
        let second = if self.flags & SECOND_OF_PACKETS == 0 { self.second } else { self.second.for_cost(most) };
        Self { packets: self.packets.for_cost(most), second, ..self }
    }

    const fn without_limits(kind: u32) -> Self {
        let meter = Meter { cost: 0, capacity: 0, ceiling: 0, front: 0, shift: 0, reserved: 0 };
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
        }
    }
}

impl Meter {
    /// Whether this limit is given at all.
    #[inline(always)]
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.capacity != 0
    }

    /// The same with a smaller burst, if it has one.
    fn shortened(self, by: Units) -> Self {
        if !self.is_on() {
            return self;
        }
        let capacity = self.capacity - by;
        let ceiling = if self.ceiling == self.capacity { capacity } else { self.ceiling };
        Self { capacity, ceiling, front: self.front.saturating_sub(by).min(half(capacity)), ..self }
    }

    /// The same where the largest packet counts as so much.
    fn for_cost(self, most: u32) -> Self {
        if !self.is_on() {
            return self;
        }
        let (largest, capacity) = (self.cost_of(most), self.capacity);
        Self { ceiling: self.ceiling.max(largest), front: self.front.min(capacity.saturating_sub(largest)), ..self }
    }

    /// What `amount` packets or bytes (up to [`MAX_FRAME`]) cost, rounded to the nearest even unit (see [`crate::meters::state`]); more counts as
    /// that.
    #[inline(always)]
    #[must_use]
    pub const fn cost_of(&self, amount: u32) -> Units {
        let shift = self.shift & 63;
        let half = (1 << shift) >> 1;
        let amount = if amount < MAX_FRAME { amount } else { MAX_FRAME };
        ((amount as u64).wrapping_mul(self.cost).wrapping_add(half)) >> shift << 1
    }

    /// What the own bucket disposes of behind a cell.
    #[inline(always)]
    #[must_use]
    pub const fn rest(&self) -> Units {
        self.capacity.wrapping_sub(self.front)
    }

    /// Whether so many packets or bytes fill that.
    #[inline(always)]
    #[must_use]
    pub const fn is_rest_filled_by(&self, amount: u64) -> bool {
        match self.rest().checked_div(self.cost_of(1)) {
            Some(most) => amount >= most,
            None => amount >= self.rest(),
        }
    }

    /// Asks for `cost` at `now`. See [`gcra::ask`].
    #[inline(always)]
    #[must_use]
    pub const fn ask(&self, state: u64, now: Units, cost: Units) -> Answer {
        gcra::ask_owing(state::debt(state, now), now, cost, self.capacity, self.ceiling)
    }
}

/// Half of a time, even.
pub(crate) const fn half(time: Units) -> Units {
    time / 4 * 2
}
