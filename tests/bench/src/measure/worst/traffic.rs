//! The packets of the rows.

use std::net::{Ipv4Addr, Ipv6Addr};

use ratelimit_tests::{EXTENSIONS, Frame, Wrap, framed};

use crate::configurations::PORT;

/// Packets that differ in 32 bits of their source.
#[derive(Clone, Copy)]
pub(super) struct Traffic {
    pub(super) frame: fn() -> Vec<u8>,
    /// Offset of those bits.
    pub(super) source_at: u32,
}

pub(super) const V6_NETWORK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);

/// An address in 2001:db8:0:1::/64.
pub(super) const fn inside(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last)
}

/// The first source of the walker.
pub(super) const FIRST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

/// UDP over IPv4.
pub(super) const V4: Traffic = Traffic { frame: || Frame::udp(FIRST, PORT).bytes(), source_at: 26 };
/// UDP from the part with a rule. Several sources differ in the last bits.
pub(super) const PART: Traffic = Traffic { frame: || Frame::udp(inside(1), PORT).bytes(), source_at: 34 };
/// UDP from the same /64, outside of the part. Several sources differ in the last bits.
pub(super) const BESIDE: Traffic = Traffic { frame: || Frame::udp(inside(0x7777), PORT).bytes(), source_at: 34 };
/// UDP from the same /32. Several sources differ in the /64.
pub(super) const V6: Traffic =
    Traffic { frame: || Frame::udp(Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 1), PORT).bytes(), source_at: 26 };
/// A new connection from that part, with four services.
pub(super) const PART_SYN: Traffic = Traffic { frame: || Frame::syn(inside(1), PORT).bytes(), source_at: 34 };
pub(super) const BESIDE_SYN: Traffic = Traffic { frame: || Frame::syn(inside(0x7777), PORT).bytes(), source_at: 34 };
pub(super) const V4_SYN: Traffic = Traffic { frame: || Frame::syn(FIRST, PORT).bytes(), source_at: 26 };
pub(super) const EXTENDED: Traffic = Traffic {
    frame: || {
        let kinds = EXTENSIONS.iter().map(|(_, kind)| *kind).filter(|kind| *kind != 0).cycle().take(7);
        let packet = kinds.fold(Wrap::udp(PORT), Wrap::behind).behind(0);
        framed(&packet.v6(Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 1), 64), &[])
    },
    source_at: 26,
};
pub(super) const TAGGED: Traffic = Traffic { frame: || Frame::udp(FIRST, PORT).tag(7).tag(8).bytes(), source_at: 34 };
/// An IPv4 header that claims more bytes than the frame has.
pub(super) const MALFORMED: Traffic = Traffic {
    frame: || {
        let mut frame = Frame::udp(FIRST, PORT).bytes();
        frame[16..18].copy_from_slice(&u16::MAX.to_be_bytes());
        frame
    },
    source_at: 26,
};
