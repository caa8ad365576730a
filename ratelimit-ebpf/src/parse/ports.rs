//! The services that a packet belongs to.

use core::ops::Deref;

use ratelimit_common::{
    identity::{
        class::{ANY, Classes},
        service::{SCTP, TCP, UDP},
        source::Source,
    },
    reason::Reason,
};

use crate::{
    bpf::settings,
    maps::classes,
    packet::headers::Frame,
    parse::outcome::{Parsed, Stop},
};

/// Bytes of the shortest headers. Hosts do not accept shorter ones.
pub(crate) const TCP_LENGTH: usize = 20;
pub(crate) const UDP_LENGTH: usize = 8;
const SCTP_LENGTH: usize = 12;

/// Byte of the TCP flags, and two of the flags.
pub(crate) const FLAGS: usize = 13;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const ACK: u8 = 0x10;

/// What the IP headers of a packet say.
pub(crate) struct Headers {
    /// Sender: an IPv4 address, or an IPv6 address with all its bits.
    pub(crate) source: Source,
    /// The payload. A later fragment and a defective packet have none.
    pub(crate) payload: Option<Payload>,
}

impl Headers {
    /// Reads the classes of the packet, if there are rules for services.
    ///
    /// # Errors
    ///
    /// As for [`Payload::classes`].
    #[inline(always)]
    pub(crate) fn parsed(self, frame: &impl Frame) -> Result<Parsed, Stop> {
        let classes = match self.payload {
            Some(payload) if settings::has_services() => payload.classes(frame)?,
            _ => Classes::from(ANY),
        };
        Ok(Parsed { source: self.source, classes })
    }
}

/// The payload of an IP packet that is not a later fragment.
pub(crate) struct Payload {
    /// Number of its protocol.
    pub(crate) protocol: u8,
    /// Its offset in the frame.
    pub(crate) begin: usize,
    /// Its end according to the IP header. Never less than `begin`.
    pub(crate) end: usize,
}

impl Payload {
    /// Returns the classes of the packet, narrowest first.
    ///
    /// # Errors
    ///
    /// Returns the reason to drop a packet whose header ends before its ports, whatever is set to pass. If it passed,
    /// only the host that joins the fragments would see the ports.
    #[inline(always)]
    pub(crate) fn classes(&self, frame: &impl Frame) -> Result<Classes, Stop> {
        let Some(services) = classes::services() else { return Ok(Classes::from(ANY)) };
        Ok(match self.protocol {
            TCP => {
                let header = self.header::<TCP_LENGTH>(frame)?;
                let is_new = header[FLAGS] & (SYN | ACK) == SYN;
                (if is_new { &services.tcp_syn } else { &services.tcp })[port(&header)]
            }
            UDP => services.udp[port(&*self.header::<UDP_LENGTH>(frame)?)],
            SCTP => services.sctp[port(&*self.header::<SCTP_LENGTH>(frame)?)],
            protocol => services.protocols[usize::from(protocol)],
        })
    }

    /// Returns the header of a transport protocol.
    #[inline(always)]
    fn header<const N: usize>(&self, frame: &impl Frame) -> Result<impl Deref<Target = [u8; N]>, Stop> {
        if self.begin + N > self.end {
            return Err(Reason::Truncated.into());
        }
        frame.read::<[u8; N]>(self.begin).ok_or(Stop::Unread)
    }
}

/// Returns the destination port, which is at the same offset in all three protocols.
#[inline(always)]
fn port<const N: usize>(header: &[u8; N]) -> usize {
    const { assert!(N >= 4) };
    usize::from(u16::from_be_bytes([header[2], header[3]]))
}
