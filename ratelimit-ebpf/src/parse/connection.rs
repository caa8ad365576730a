//! The connection that a packet belongs to. Only packets that would be refused are read a second time for it.

use network_types::{
    eth::EtherType,
    ip::{Ipv4Hdr, Ipv6Hdr},
};
use ratelimit_common::identity::service::{TCP, UDP};

use crate::{
    bpf::settings,
    packet::headers::Frame,
    parse::{
        ethernet, ipv4, ipv6,
        outcome::Stop,
        ports::{ACK, FLAGS, SYN, TCP_LENGTH, UDP_LENGTH},
    },
};

/// Addresses and ports of a packet, in the layout in which the kernel looks for sockets.
/// It consists of long words, because the verifier refuses misaligned accesses to the stack.
#[repr(C)]
pub struct Connection {
    /// Sender, receiver and both ports, as they lie in a packet. Zeros follow.
    pub words: [u64; 5],
    /// [`IS_TCP`], [`IS_CHOSEN`] and [`IS_IPV6`], or 0 for UDP over IPv4 to another port.
    pub kind: u32,
    /// Offset of the TCP or UDP header in the frame.
    pub begin: u32,
}

/// What [`Connection::read`] found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The packet has no ports: a later fragment, or another protocol.
    Nothing,
    /// A first SYN, which opens a connection to this host.
    FirstSyn,
    /// A packet of a connection that this host may have.
    Connection,
}

/// [`Connection::kind`]: TCP, and not UDP.
pub const IS_TCP: u32 = 1;
/// [`Connection::kind`]: the local port is one that the kernel chooses for connections that this host opens.
pub const IS_CHOSEN: u32 = 2;
/// [`Connection::kind`]: IPv6, and not IPv4.
pub const IS_IPV6: u32 = 4;

impl Connection {
    /// Returns a connection without addresses.
    #[inline(always)]
    #[must_use]
    pub const fn new() -> Self {
        Self { words: [0; 5], kind: 0, begin: 0 }
    }

    /// Returns one of the words. LLVM reads each when it is needed.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        // SAFETY: a reference is readable.
        self.words.get(index).map_or(0, |word| unsafe { core::ptr::read_volatile(word) })
    }

    /// Reads the connection of a packet that the [parser](crate::parse::parser) has accepted.
    ///
    /// # Errors
    ///
    /// Returns [`Stop::Unread`] if the headers lie in other buffers.
    #[inline(always)]
    pub fn read(&mut self, frame: &impl Frame, is_ethernet: bool) -> Result<Found, Stop> {
        let (is_ipv6, offset) = network(frame, is_ethernet)?;
        let headers = if is_ipv6 { ipv6::headers::<false>(frame, offset)? } else { ipv4::headers(frame, offset)? };
        let Some(payload) = headers.payload else { return Ok(Found::Nothing) };
        let (length, is_tcp) = match payload.protocol {
            TCP => (TCP_LENGTH, IS_TCP),
            UDP => (UDP_LENGTH, 0),
            _ => return Ok(Found::Nothing),
        };
        if payload.begin + length > payload.end {
            return Ok(Found::Nothing);
        }
        let mut found = Found::Connection;
        if is_tcp != 0 {
            let [words, flags] = *frame.read::<[u8; 2]>(payload.begin + FLAGS - 1).ok_or(Stop::Unread)?;
            if flags & (SYN | ACK) == SYN {
                let length = usize::from(words >> 4) * 4;
                if !settings::proves_tcp() || length < TCP_LENGTH || payload.begin + length > payload.end {
                    return Ok(Found::Nothing);
                }
                found = Found::FirstSyn;
            }
        }
        self.begin = payload.begin as u32;
        let [a, b, c, d] = *frame.read::<[u8; 4]>(payload.begin).ok_or(Stop::Unread)?;
        let ports = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
        let kind = kind_of(is_tcp, [c, d]);
        if is_ipv6 {
            let addresses = frame.read::<[[u8; 8]; 4]>(offset + Ipv6Hdr::LEN - 32).ok_or(Stop::Unread)?;
            let [a, b, c, d] = (*addresses).map(u64::from_ne_bytes);
            self.words = [a, b, c, d, ports];
            self.kind = kind | IS_IPV6;
        } else {
            let addresses = *frame.read::<[u8; 8]>(offset + Ipv4Hdr::LEN - 8).ok_or(Stop::Unread)?;
            self.words = [u64::from_ne_bytes(addresses), ports, 0, 0, 0];
            self.kind = kind;
        }
        Ok(found)
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the [kind](Connection::kind) of an IPv4 connection with this local port.
#[inline(always)]
#[must_use]
pub fn kind_of(is_tcp: u32, local: [u8; 2]) -> u32 {
    let local = u32::from(u16::from_be_bytes(local));
    let is_chosen = settings::OWN_PORTS_FIRST.load() <= local && local <= settings::OWN_PORTS_LAST.load();
    if is_chosen { is_tcp | IS_CHOSEN } else { is_tcp }
}

/// Returns whether the packet is IPv6, and the offset of its header.
#[inline(always)]
fn network(frame: &impl Frame, is_ethernet: bool) -> Result<(bool, usize), Stop> {
    if is_ethernet {
        let (ether_type, offset) = ethernet::network(frame).ok_or(Stop::Unread)?;
        return Ok((ether_type == EtherType::Ipv6 as u16, offset));
    }
    let [first, _] = *frame.read::<[u8; 2]>(0).ok_or(Stop::Unread)?;
    Ok((first >> 4 == 6, 0))
}
