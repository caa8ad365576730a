//! Frames from the peer to the victim.

use std::net::IpAddr;

use etherparse::{IpHeaders, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, PacketBuilder};

use crate::{MAC, VICTIM_IPV4, VICTIM_IPV6};

/// Contents of a frame with valid checksums. Its destination is the victim.
#[derive(Debug, Clone)]
pub struct Frame {
    source: IpAddr,
    transport: Transport,
    tags: Vec<u16>,
    length: usize,
}

#[derive(Debug, Clone, Copy)]
enum Transport {
    Udp { port: u16 },
    Syn { port: u16 },
    Ack { port: u16 },
    Echo,
}

impl Frame {
    /// Returns UDP to `port` with the minimum length of Ethernet: 60 bytes.
    #[must_use]
    pub fn udp(source: impl Into<IpAddr>, port: u16) -> Self {
        Self::new(source.into(), Transport::Udp { port })
    }

    /// Returns a TCP SYN to `port` with the minimum length: 60 bytes, or the length of its headers.
    #[must_use]
    pub fn syn(source: impl Into<IpAddr>, port: u16) -> Self {
        Self::new(source.into(), Transport::Syn { port })
    }

    /// Returns a packet of an established TCP connection to `port`, with the minimum length: 60 bytes, or the length of
    /// its headers.
    #[must_use]
    pub fn ack(source: impl Into<IpAddr>, port: u16) -> Self {
        Self::new(source.into(), Transport::Ack { port })
    }

    /// Returns an ICMP echo request with the minimum length: 60 bytes, or the length of its headers.
    #[must_use]
    pub fn echo(source: impl Into<IpAddr>) -> Self {
        Self::new(source.into(), Transport::Echo)
    }

    fn new(source: IpAddr, transport: Transport) -> Self {
        Self { source, transport, tags: Vec::new(), length: 60 }
    }

    /// Adds a VLAN tag before the existing ones: 802.1Q as the innermost, 802.1ad for the others.
    #[must_use]
    pub fn tag(mut self, vlan: u16) -> Self {
        self.tags.push(vlan);
        self
    }

    /// Sets the length of the frame in bytes without tags. Headers are never cut.
    #[must_use]
    pub fn length(mut self, bytes: usize) -> Self {
        self.length = bytes;
        self
    }

    /// Returns the bytes of the frame.
    ///
    /// # Panics
    ///
    /// If it exceeds the maximum length of IP.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let step = PacketBuilder::ethernet2(MAC, MAC).ip(self.ip());
        let mut bytes = Vec::new();
        let payload = |headers: usize| vec![0; self.length.saturating_sub(headers)];
        match self.transport {
            Transport::Udp { port } => {
                let step = step.udp(SOURCE_PORT, port);
                let payload = payload(step.size(0));
                step.write(&mut bytes, &payload)
            }
            Transport::Syn { port } => {
                let step = step.tcp(SOURCE_PORT, port, 0, u16::MAX).syn();
                let payload = payload(step.size(0));
                step.write(&mut bytes, &payload)
            }
            Transport::Ack { port } => {
                let step = step.tcp(SOURCE_PORT, port, 0, u16::MAX).ack(1);
                let payload = payload(step.size(0));
                step.write(&mut bytes, &payload)
            }
            Transport::Echo if self.source.is_ipv4() => {
                let step = step.icmpv4_echo_request(1, 1);
                let payload = payload(step.size(0));
                step.write(&mut bytes, &payload)
            }
            Transport::Echo => {
                let step = step.icmpv6_echo_request(1, 1);
                let payload = payload(step.size(0));
                step.write(&mut bytes, &payload)
            }
        }
        .expect("the frame is invalid");
        for (depth, vlan) in self.tags.iter().enumerate() {
            let ether_type: u16 = if depth == 0 { 0x8100 } else { 0x88a8 };
            bytes.splice(12..12, [ether_type.to_be_bytes(), vlan.to_be_bytes()].concat());
        }
        bytes
    }

    /// Returns the IP header. Lengths and checksums are filled in later.
    fn ip(&self) -> IpHeaders {
        match self.source {
            IpAddr::V4(source) => {
                let header = Ipv4Header::new(0, 64, IpNumber::UDP, source.octets(), VICTIM_IPV4.octets());
                IpHeaders::Ipv4(header.expect("an empty payload fits"), Default::default())
            }
            IpAddr::V6(source) => {
                let header = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: 0,
                    next_header: IpNumber::UDP,
                    hop_limit: 64,
                    source: source.octets(),
                    destination: VICTIM_IPV6.octets(),
                };
                IpHeaders::Ipv6(header, Default::default())
            }
        }
    }
}

/// A port that no service uses.
const SOURCE_PORT: u16 = 50_000;

impl From<Frame> for Vec<u8> {
    fn from(frame: Frame) -> Self {
        frame.bytes()
    }
}
