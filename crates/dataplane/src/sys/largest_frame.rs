//! The largest frame that a program on an interface sees.

use super::{
    interface::{Attached, Interface},
    joined_packets,
    link_type::FirstHeader,
};

/// Bytes of the largest IP packet. Linux joins no more, unless BIG TCP is switched on.
const LARGEST_PACKET: u32 = 65_535;

/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;

/// The largest frame, and what makes it that large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargestFrame {
    /// Its bytes, with the header of the link.
    pub bytes: u32,
    /// The interface.
    pub interface: String,
    /// Whether devices join packets. Otherwise, its MTU decides.
    pub is_joined: bool,
}

/// Returns the largest frame of these interfaces. None without any.
#[must_use]
pub fn of<'a>(interfaces: impl Iterator<Item = &'a Interface>) -> Option<LargestFrame> {
    interfaces.map(of_one).max_by_key(|largest| largest.bytes)
}

fn of_one(interface: &Interface) -> LargestFrame {
    let is_generic = interface.program.is_some_and(|program| program.mode == Attached::Generic);
    let is_joined = joined_packets::find(interface.index, is_generic).is_ok_and(|found| !found.is_empty());
    largest(interface, is_joined)
}

fn largest(interface: &Interface, is_joined: bool) -> LargestFrame {
    let header = if interface.link_type.first_header() == Some(FirstHeader::Ip) { 0 } else { ETHERNET };
    let packet = if is_joined { interface.mtu.max(LARGEST_PACKET) } else { interface.mtu };
    LargestFrame { bytes: packet.saturating_add(header), interface: interface.name.clone(), is_joined }
}
