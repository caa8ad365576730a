//! What is done with a source's packets, worked out so that the kernel side only adds and compares.

use crate::{
    boundary,
    gcra::{self, Answer, Units},
    source::IPV4,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// [`ALLOW`], [`DENY`], [`LIMIT`], [`BAN`], or 0 for an entry that is free.
    pub kind: u32,
    /// A sum of [`HAS_PARENTS`] and [`COARSE`].
    pub flags: u32,
    /// The limit of packets; zero capacity means none.
    pub packets: Meter,
    /// The limit of bytes; zero capacity means none.
    pub bytes: Meter,
    /// The wider limits that must agree, for IPv4 and for IPv6.
    pub parents: [[Parent; MOST_PARENTS]; 2],
    /// Nanoseconds for which a source is shut out that exceeds a limit; 0 is not at all.
    pub ban: u64,
    /// The limits as the operator gave them, for listing.
    pub given: Given,
}
boundary!(Policy, size 152);

/// [`Policy::flags`]: there are wider limits.
pub const HAS_PARENTS: u32 = 1;
/// [`Policy::flags`]: the coarse clock will do. See [`Policy::by_ticks`].
pub const COARSE: u32 = 2;

/// Ticks of the coarse clock that a burst must span, so that the tick by which that clock may lag, which is taken off the burst, is a
/// hundredth of it at most.
pub const TICKS_OF_A_BURST: u64 = 100;

/// Wider limits that one packet asks at most, besides its own.
pub const MOST_PARENTS: usize = 2;

/// A wider limit, with one bucket for all sources in its scope whose policy names it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meter {
    /// Cost of one packet or one byte, times two to the power of `shift`.
    pub cost: u64,
    /// Debt that the burst allows.
    pub capacity: Units,
    /// Largest debt that one packet can leave behind.
    pub ceiling: Units,
    /// The part of the capacity that a cell admits by itself: half, or less where that would leave less than the largest packet, down to
    /// nothing. See [`crate::stages`].
    pub front: Units,
    /// Binary digits of the cost's fraction. Below 64.
    pub shift: u32,
    /// Zero.
    pub reserved: u32,
}
boundary!(Meter, size 40);

/// The limits in the operator's words. Zero means not given.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Given {
    /// Packets per period.
    pub packets: u64,
    /// Nanoseconds.
    pub packets_period: u64,
    /// Bytes per period.
    pub bytes: u64,
    /// Nanoseconds.
    pub bytes_period: u64,
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

    /// The wider limits of a source of this [family](crate::source::Source::family).
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

    /// The same for a clock that lags by up to one `tick`, where every burst spans enough of them: what may pass in a tick is taken
    /// off the burst, but for the one packet that the bound allows anyway. 0 stands for no such clock.
    ///
    /// Parents are always asked by the precise clock.
    #[must_use]
    pub fn by_ticks(self, tick: Units) -> Self {
        let is_asked = self.packets.is_on() || self.bytes.is_on();
        let spans = |meter: &Meter| !meter.is_on() || meter.capacity / TICKS_OF_A_BURST >= tick;
        if tick == 0 || !is_asked || self.has_parents() || !spans(&self.packets) || !spans(&self.bytes) {
            return self;
        }
        let packets = self.packets.shortened(tick.saturating_sub(self.packets.cost_of(1)));
        Self { flags: self.flags | COARSE, packets, bytes: self.bytes.shortened(tick), ..self }
    }

    const fn without_limits(kind: u32) -> Self {
        let meter = Meter { cost: 0, capacity: 0, ceiling: 0, front: 0, shift: 0, reserved: 0 };
        let given = Given { packets: 0, packets_period: 0, bytes: 0, bytes_period: 0, burst: 0 };
        let none = Parent { policy: 0, scope: 0, prefix: 0 };
        Self { kind, flags: 0, packets: meter, bytes: meter, parents: [[none; MOST_PARENTS]; 2], ban: 0, given }
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
        Self { capacity, ceiling, front: self.front.saturating_sub(by).min(capacity / 2), ..self }
    }

    /// What `amount` packets or bytes (up to [`MAX_FRAME`]) cost, rounded to the nearest unit; more counts as that.
    #[inline(always)]
    #[must_use]
    pub const fn cost_of(&self, amount: u32) -> Units {
        let shift = self.shift & 63;
        let half = (1 << shift) >> 1;
        let amount = if amount < MAX_FRAME { amount } else { MAX_FRAME };
        ((amount as u64).wrapping_mul(self.cost).wrapping_add(half)) >> shift
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
        match self.rest().checked_div(self.cost >> (self.shift & 63)) {
            Some(most) => amount >= most,
            None => amount >= self.rest(),
        }
    }

    /// Asks for `cost` at `now`. See [`gcra::ask`].
    #[inline(always)]
    #[must_use]
    pub const fn ask(&self, state: u64, now: Units, cost: Units) -> Answer {
        gcra::ask(state, now, cost, self.capacity, self.ceiling)
    }
}
