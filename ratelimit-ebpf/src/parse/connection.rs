//! The connection that a packet belongs to. Only of packets that would be refused, ports and addresses are read for it.

use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

use crate::{
    bpf::settings,
    packet::{context::Transport, frame::Frame},
    parse::outcome::{ACK, FLAGS, SYN, Stop, TCP_LENGTH},
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

    /// Reads the connection of a packet from where the [parser](crate::parse::parser) has found it.
    ///
    /// # Errors
    ///
    /// Returns [`Stop::Unread`] if the headers lie in other buffers.
    #[inline(always)]
    pub fn read(&mut self, frame: &impl Frame, transport: Transport) -> Result<Found, Stop> {
        if transport.is_none() {
            return Ok(Found::Nothing);
        }
        let (network, begin) = (transport.network(), transport.begin());
        let (mut found, mut is_tcp) = (Found::Connection, 0);
        if transport.is_tcp() {
            let [words, flags] = *frame.read::<[u8; 2]>(begin + FLAGS - 1).ok_or(Stop::Unread)?;
            if flags & (SYN | ACK) == SYN {
                let length = usize::from(words >> 4) * 4;
                if !settings::proves_tcp() || length < TCP_LENGTH || begin + length > end(frame, transport)? {
                    return Ok(Found::Nothing);
                }
                found = Found::FirstSyn;
            }
            is_tcp = IS_TCP;
        }
        self.begin = begin as u32;
        let [a, b, c, d] = *frame.read::<[u8; 4]>(begin).ok_or(Stop::Unread)?;
        let ports = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
        let kind = kind_of(is_tcp, [c, d]);
        if transport.is_ipv6() {
            let addresses = frame.read::<[[u8; 8]; 4]>(network + Ipv6Hdr::LEN - 32).ok_or(Stop::Unread)?;
            let [a, b, c, d] = (*addresses).map(u64::from_ne_bytes);
            self.words = [a, b, c, d, ports];
            self.kind = kind | IS_IPV6;
        } else {
            let addresses = *frame.read::<[u8; 8]>(network + Ipv4Hdr::LEN - 8).ok_or(Stop::Unread)?;
            self.words = [u64::from_ne_bytes(addresses), ports, 0, 0, 0];
            self.kind = kind;
        }
        Ok(found)
    }
}

/// Returns the end of a packet according to its IP header.
#[inline(always)]
fn end(frame: &impl Frame, transport: Transport) -> Result<usize, Stop> {
    let (length_at, before) = if transport.is_ipv6() { (4, Ipv6Hdr::LEN) } else { (2, 0) };
    let length = *frame.read::<[u8; 2]>(transport.network() + length_at).ok_or(Stop::Unread)?;
    Ok(transport.network() + before + usize::from(u16::from_be_bytes(length)))
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
