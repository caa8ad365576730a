//! Which services a packet belongs to.

use ratelimit_common::{
    identity::{
        class::{ANY, Classes},
        service::{SCTP, TCP, UDP},
    },
    reason::Reason,
};

use crate::{bpf::settings, maps::all::SERVICES, packet::frame::Packet};

/// Bytes of the shortest headers: what is shorter cannot be told by its ports, and no host takes it either.
const TCP_LENGTH: usize = 20;
const UDP_LENGTH: usize = 8;
const SCTP_LENGTH: usize = 12;

/// TCP's flags, and the byte that they are in.
const FLAGS: usize = 13;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// The payload of an IP packet that is no later fragment.
pub(crate) struct Payload {
    /// Number of its protocol.
    pub(crate) protocol: u8,
    /// Where it begins in the frame.
    pub(crate) begin: usize,
    /// Where it ends, as the IP header says. No less than `begin`.
    pub(crate) end: usize,
}

/// Whether packets are told apart by service at all.
#[inline(always)]
pub(crate) fn are_on() -> bool {
    settings::is_on(&settings::SERVICES_ON)
}

impl Payload {
    /// The classes of the packet, narrowest first.
    ///
    /// # Errors
    ///
    /// The reason for which it is dropped, whatever is set to pass: its header ends before the packet's service can be told. Passed, a
    /// fragment would show its ports only when the host has put it together with the next.
    #[inline(always)]
    pub(crate) fn classes(&self, packet: &Packet) -> Result<Classes, Reason> {
        let Some(services) = SERVICES.get(0) else { return Ok(Classes::from(ANY)) };
        Ok(match self.protocol {
            TCP => {
                let header: &[u8; TCP_LENGTH] = self.header(packet)?;
                let is_new = header[FLAGS] & (SYN | ACK) == SYN;
                (if is_new { &services.tcp_syn } else { &services.tcp })[port(header)]
            }
            UDP => services.udp[port::<UDP_LENGTH>(self.header(packet)?)],
            SCTP => services.sctp[port::<SCTP_LENGTH>(self.header(packet)?)],
            protocol => services.protocols[usize::from(protocol)],
        })
    }

    /// The header of a transport protocol.
    #[inline(always)]
    fn header<'a, const N: usize>(&self, packet: &'a Packet) -> Result<&'a [u8; N], Reason> {
        if self.begin + N > self.end {
            return Err(Reason::Truncated);
        }
        // Within the packet, but not within its first buffer: behind very long headers.
        packet.header(self.begin).ok_or(Reason::TooManyHeaders)
    }
}

/// The destination port, where all three protocols have it.
#[inline(always)]
fn port<const N: usize>(header: &[u8; N]) -> usize {
    const { assert!(N >= 4) };
    usize::from(u16::from_be_bytes([header[2], header[3]]))
}
