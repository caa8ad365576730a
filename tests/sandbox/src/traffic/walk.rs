//! The sources that one frame is sent from.

use aya::EbpfLoader;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};

/// The sources of a frame, which differ in 32 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Walk {
    /// Number of sources; 0 leaves the frame unchanged.
    count: u32,
    /// Not 0 if each packet's source is random.
    random_order: u32,
    /// Not 0 if every packet has another source.
    endless: u32,
    /// Offset of the 32 bits in the frame, and their value for the first source, or its number if sources are endless.
    source_at: u32,
    first: u32,
    /// Offsets of the checksums that cover the source; 0 if there is none.
    header_checksum_at: u32,
    transport_checksum_at: u32,
}

impl Walk {
    /// Returns `count` sources from that of `frame` on: single addresses for IPv4, and /64 prefixes for IPv6.
    pub(crate) fn sources(frame: &[u8], count: u32) -> Self {
        Self::new(frame, count, 4)
    }

    /// Returns `count` addresses from that of `frame` on.
    pub(crate) fn addresses(frame: &[u8], count: u32) -> Self {
        Self::new(frame, count, 12)
    }

    /// Returns another source for each packet, without the first `used` ones.
    pub(crate) fn endless(frame: &[u8], used: u32) -> Self {
        Self { endless: 1, first: used, ..Self::sources(frame, 0) }
    }

    pub(crate) fn in_random_order(self) -> Self {
        Self { random_order: 1, ..self }
    }

    /// For IPv6, the 32 bits start at byte `counted` of the address.
    fn new(frame: &[u8], count: u32, counted: usize) -> Self {
        let packet = SlicedPacket::from_ethernet(frame).expect("the frame is invalid, so its source is unknown");
        let offset = |part: &[u8]| part.as_ptr().addr() - frame.as_ptr().addr();
        let (source_at, header_checksum_at) = match &packet.net {
            Some(NetSlice::Ipv4(ip)) => (offset(ip.header().slice()) + 12, offset(ip.header().slice()) + 10),
            Some(NetSlice::Ipv6(ip)) => (offset(ip.header().slice()) + 8 + counted, 0),
            _ => panic!("the frame is not IP, so it has no source"),
        };
        let transport_checksum_at = match &packet.transport {
            Some(TransportSlice::Udp(udp)) if udp.checksum() != 0 => offset(udp.slice()) + 6,
            Some(TransportSlice::Tcp(tcp)) => offset(tcp.slice()) + 16,
            Some(TransportSlice::Icmpv6(icmp)) => offset(icmp.slice()) + 2,
            _ => 0,
        };
        let first = frame[source_at..].first_chunk().copied().map_or(0, u32::from_be_bytes);
        let [source_at, header_checksum_at, transport_checksum_at] =
            [source_at, header_checksum_at, transport_checksum_at].map(|offset| offset as u32);
        Self { count, random_order: 0, endless: 0, source_at, first, header_checksum_at, transport_checksum_at }
    }

    /// Passes the sources to the program `send`.
    pub(crate) fn configure<'a>(&'a self, loader: &mut EbpfLoader<'a>) {
        loader
            .override_global("SOURCES", &self.count, true)
            .override_global("RANDOM_ORDER", &self.random_order, true)
            .override_global("ENDLESS", &self.endless, true)
            .override_global("SOURCE_AT", &self.source_at, true)
            .override_global("FIRST_SOURCE", &self.first, true)
            .override_global("HEADER_CHECKSUM_AT", &self.header_checksum_at, true)
            .override_global("TRANSPORT_CHECKSUM_AT", &self.transport_checksum_at, true);
    }
}
