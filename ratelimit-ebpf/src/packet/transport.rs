//! Where the headers of a packet's connection lie, as far as the parser has found them. One word, so that whoever looks up
//! the connection parses no header again.

/// The place of the TCP or UDP header of a packet and of the IP header before it. 0 if the packet has no connection: a
/// later fragment, another protocol, a header that ends too early.
///
/// The lowest three bits are 0. [`Context`](crate::packet::context::Context) uses them.
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
