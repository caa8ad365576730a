//! A packet with everything that is known of it when it is decided, and the verdict on it.
//!
//! The context contains no pointers, so that it can be passed to [global functions](crate::bpf::verifier).

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::source::Source,
    limits::policy::{COARSE, Policy, REJECT, SHADOW},
    maps::control::Control,
    reason::Reason,
};

use crate::{
    bpf::{clock::Clock, settings},
    maps::rules,
};

/// One packet.
#[repr(C)]
pub struct Context {
    /// Source that is billed.
    pub source: Source,
    /// Hash of that source. It selects the cell whose levels are charged.
    pub hash: u64,
    /// Time of the packet in nanoseconds, by the policy's clock.
    pub now: u64,
    /// Hash of the source with its narrowest service, even if another service is billed. It selects the cached refusal
    /// and its cell.
    pub refusal_hash: u64,
    /// Time of the packet by the coarse clock. All budgets use it, since two clocks would give tokens back.
    pub tick: u64,
    /// Policy of the packet, and its validity.
    pub resolution: Resolution,
    /// Reason that the limits gave so far.
    pub reason: Reason,
    /// Bytes of the frame, then a [`Share`], an [`Unknown`], and in the highest byte the cost in limits of packets.
    sizes: u32,
    /// Index of the interface, where parents or capacities need it.
    pub interface: u32,
    /// The [`Transport`] of the packet, and [`Self::own`] in its three lowest bits.
    connection: u32,
}

/// [`Context::own()`]: this host has not opened it, as far as a look-up or the port tells, or own connections are not spared.
pub const NOT_OWN: u32 = 0;
/// [`Context::own()`]: a budget for look-ups is spent, and the port is one from which this host opens connections.
pub const NOT_LOOKED_UP: u32 = 1;
/// [`Context::own()`]: the source has connections that this host has opened.
pub const OF_A_PEER: u32 = 2;

const OWN_MASK: u32 = 7;
const COST_SHIFT: u32 = 24;
/// The longest frame that the kernel joins has 524,280 bytes and its headers (`GSO_MAX_SIZE`).
const LENGTH_BITS: u32 = 20;
const LENGTH_MASK: u32 = (1 << LENGTH_BITS) - 1;

/// What the lease of a packet's source has said so far. See [`crate::shares`].
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Share {
    /// The lease is asked after all limits.
    Later = 1 << LENGTH_BITS,
    /// The lease is charged.
    Paid = 2 << LENGTH_BITS,
}

/// What the limit of all unknown sources has said so far of a source that it does not know.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Unknown {
    /// The packet is within the limit, and charged.
    WithinRate = 4 << LENGTH_BITS,
    /// It is over the limit, and a first SYN that may get an answer.
    FirstSyn = 8 << LENGTH_BITS,
}

impl Context {
    /// Creates the context of a packet that arrived at `now` by the coarse clock, without a policy.
    #[inline(always)]
    #[must_use]
    pub fn new(source: Source, transport: Transport, now: u64, [length, cost]: [u32; 2], interface: u32) -> Self {
        let (resolution, sizes, reason) =
            (Resolution::NOTHING, length & LENGTH_MASK | cost << COST_SHIFT, Reason::WithinLimit);
        let connection = transport.0 | NOT_OWN;
        Self { source, hash: 0, now, refusal_hash: 0, tick: now, resolution, reason, sizes, interface, connection }
    }

    /// Returns where the connection of the packet is read.
    #[inline(always)]
    #[must_use]
    pub fn transport(&self) -> Transport {
        Transport(self.connection & !OWN_MASK)
    }

    /// Returns what is known of the packet's connection, only of packets that would be refused: [`NOT_OWN`],
    /// [`NOT_LOOKED_UP`], or at least [`OF_A_PEER`].
    #[inline(always)]
    #[must_use]
    pub fn own(&self) -> u32 {
        self.connection & OWN_MASK
    }

    /// Notes what is known of the packet's connection.
    #[inline(always)]
    pub fn note_own(&mut self, own: u32) {
        self.connection = self.connection & !OWN_MASK | own & OWN_MASK;
    }

    /// Returns the policy.
    #[inline(always)]
    #[must_use]
    pub fn policy(&self) -> Option<&'static Policy> {
        rules::policy(self.resolution.policy())
    }

    /// Returns the amounts that the packet counts as in the two limits of a policy.
    #[inline(always)]
    #[must_use]
    pub fn amounts(&self, policy: &Policy) -> [u32; 2] {
        let cost = self.cost();
        [cost, policy.second_amount(self.length(), cost)]
    }

    /// Returns, for each limit, the least amount of a packet that a cached refusal of this packet would refuse. A
    /// packet of the same length may cost less, and a packet of the same cost may be shorter.
    #[inline(always)]
    #[must_use]
    pub fn amounts_refused(&self, policy: &Policy) -> [u32; 2] {
        let amounts = self.amounts(policy);
        match policy.second_reason() {
            Reason::OverBytes if self.reason != Reason::OverBytes => [amounts[0], 0],
            Reason::OverBytes if settings::has_costs() => [0, amounts[1]],
            _ => amounts,
        }
    }

    /// Returns the cost in limits of packets.
    #[inline(always)]
    #[must_use]
    pub fn cost(&self) -> u32 {
        if settings::has_costs() { self.sizes >> COST_SHIFT } else { 1 }
    }

    /// Returns the bytes of the frame.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> u32 {
        self.sizes & LENGTH_MASK
    }

    /// Notes what the lease of the source has said. It is noted once.
    #[inline(always)]
    pub fn note_share(&mut self, share: Share) {
        self.sizes |= share as u32;
    }

    /// Returns whether a share was noted.
    #[inline(always)]
    #[must_use]
    pub fn has_share(&self) -> bool {
        self.sizes & (Share::Later as u32 | Share::Paid as u32) != 0
    }

    /// Returns whether the lease of the source is charged.
    #[inline(always)]
    #[must_use]
    pub fn has_paid_share(&self) -> bool {
        self.sizes & Share::Paid as u32 != 0
    }

    /// Notes what the limit of unknown sources has said. It is noted once.
    ///
    /// Here and not in a local variable, so that the verifier forgets it at the next global function, and walks the rest of
    /// the program once.
    #[inline(always)]
    pub fn note_unknown(&mut self, unknown: Unknown) {
        self.sizes |= unknown as u32;
    }

    /// Returns whether this was noted.
    #[inline(always)]
    #[must_use]
    pub fn is_unknown(&self, unknown: Unknown) -> bool {
        self.sizes & unknown as u32 != 0
    }

    /// Reads the precise clock for policies that need it.
    #[inline(always)]
    pub fn set_clock(&mut self, control: &Control, policy: &Policy) {
        if policy.flags & COARSE == 0 {
            self.now = Clock::read(control).now();
        }
    }

    /// Returns the clock of the packet.
    #[inline(always)]
    #[must_use]
    pub fn clock<'a>(&self, control: &'a Control) -> Clock<'a> {
        Clock::of(control, self.now)
    }
}

/// The place of the TCP or UDP header of a packet and of the IP header before it. 0 if the packet has no connection: a
/// later fragment, another protocol, a header that ends too early.
///
/// The lowest three bits are 0. [`Context`] uses them.
#[derive(Clone, Copy)]
pub struct Transport(pub u32);

const IS_TCP: u32 = 1 << 3;
const IS_UDP: u32 = 1 << 4;
const IS_IPV6: u32 = 1 << 5;
const NETWORK_SHIFT: u32 = 8;
/// Bound of the first offset: an Ethernet header with two tags has 22 bytes.
const MOST_NETWORK: usize = 0x1f;
const BEGIN_SHIFT: u32 = 16;

impl Transport {
    /// The packet has no connection.
    pub const NONE: Self = Self(0);

    /// Bound of the second offset, which the verifier needs: the IP header ends within the first 82 bytes, and the eight
    /// extension headers that the parser reads have at most 2,048 bytes each.
    pub const MOST_BEGIN: usize = 0x7fff;

    /// Returns the place of a TCP or UDP header at `begin`, behind an IP header at `network`. Both are within their bounds.
    #[inline(always)]
    #[must_use]
    pub fn new(is_tcp: bool, is_ipv6: bool, network: usize, begin: usize) -> Self {
        let (kind, family) = (if is_tcp { IS_TCP } else { IS_UDP }, if is_ipv6 { IS_IPV6 } else { 0 });
        Self(kind | family | (network as u32) << NETWORK_SHIFT | (begin as u32) << BEGIN_SHIFT)
    }

    /// Whether the packet has no connection.
    #[inline(always)]
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 & (IS_TCP | IS_UDP) == 0
    }

    /// Whether it is TCP, and not UDP.
    #[inline(always)]
    #[must_use]
    pub fn is_tcp(self) -> bool {
        self.0 & IS_TCP != 0
    }

    /// Whether it is IPv6, and not IPv4.
    #[inline(always)]
    #[must_use]
    pub fn is_ipv6(self) -> bool {
        self.0 & IS_IPV6 != 0
    }

    /// Returns the offset of the IP header: 0 where no Ethernet header is before it.
    #[inline(always)]
    #[must_use]
    pub fn network(self) -> usize {
        (self.0 >> NETWORK_SHIFT) as usize & MOST_NETWORK
    }

    /// Returns the offset of the TCP or UDP header.
    #[inline(always)]
    #[must_use]
    pub fn begin(self) -> usize {
        (self.0 >> BEGIN_SHIFT) as usize & Self::MOST_BEGIN
    }
}

/// A reason and an action. It has two words, so no function that is not inlined returns it.
#[derive(Clone, Copy)]
pub struct Verdict {
    /// Reason of the verdict.
    pub reason: Reason,
    /// Action where the reason is to drop. See [`ratelimit_common::limits::policy::Policy::over_limit`].
    pub action: u8,
}

impl From<Reason> for Verdict {
    #[inline(always)]
    fn from(reason: Reason) -> Self {
        Self { reason, action: 0 }
    }
}

impl Verdict {
    /// Returns whether the packet passes in shadow: it passes, and is counted under the reason of its refusal.
    #[inline(always)]
    #[must_use]
    pub fn is_shadowed(self) -> bool {
        if self.reason.passes() {
            return false;
        }
        settings::is_on(&settings::SHADOW_ON) || settings::is_on(&settings::ACTIONS_ON) && self.action == SHADOW
    }

    /// Returns whether the sender gets a reply. A source that may be forged gets none.
    #[inline(always)]
    #[must_use]
    pub fn is_answered(self) -> bool {
        let is_over = matches!(self.reason, Reason::OverPackets | Reason::OverBytes | Reason::OverParent)
            || settings::has_leases() && self.reason == Reason::OverShare;
        is_over && self.action == REJECT
    }

    /// Returns whether the frame is a SYN-ACK for its sender now.
    #[inline(always)]
    #[must_use]
    pub fn is_syn_ack(self) -> bool {
        settings::proves_tcp() && self.reason == Reason::SynCookie
    }
}
