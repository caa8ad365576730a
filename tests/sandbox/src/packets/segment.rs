//! TCP segments of a client, built header by header, and checks of the frames that answer them.

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    IpHeaders, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, NetSlice, PacketBuilder, SlicedPacket, TcpHeader,
    TransportSlice,
};

use super::wrap::framed;
use crate::MAC;

/// A segment from a client, behind options of IPv4.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Address and port of the client.
    pub from: SocketAddr,
    /// Those of the server.
    pub to: SocketAddr,
    /// Bytes of options of IPv4.
    pub ip_options: usize,
    /// Options of TCP.
    pub options: Vec<u8>,
    /// Flags of the header, beside ACK.
    pub flags: u8,
    /// Number that it acknowledges, if it has the flag ACK.
    pub acknowledgement: Option<u32>,
    /// Its number.
    pub sequence: u32,
    /// Bytes behind the header.
    pub payload: Vec<u8>,
}

impl Segment {
    /// Ethernet address of the client.
    pub const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 0xc];

    /// [`Self::flags`]: the sender has nothing more to send.
    pub const FIN: u8 = 1;
    /// [`Self::flags`]: the segment opens a connection.
    pub const SYN: u8 = 2;
    /// [`Self::flags`]: there is no such connection.
    pub const RST: u8 = 4;
    /// [`Self::flags`]: the receiver must not wait for more.
    pub const PSH: u8 = 8;
    /// [`Self::flags`]: a part is urgent.
    pub const URG: u8 = 32;

    /// Returns a first SYN that offers segments of 1,460 bytes. The number behind its own is zero.
    #[must_use]
    pub fn syn(from: SocketAddr, to: SocketAddr) -> Self {
        Self {
            from,
            to,
            ip_options: 0,
            options: vec![2, 4, 5, 0xb4],
            flags: Self::SYN,
            acknowledgement: None,
            sequence: u32::MAX,
            payload: Vec::new(),
        }
    }

    /// Returns the acknowledgement of the SYN-ACK with this number, which answers this SYN.
    #[must_use]
    pub fn acknowledging(&self, number: u32) -> Self {
        Self {
            flags: 0,
            acknowledgement: Some(number.wrapping_add(1)),
            sequence: self.sequence.wrapping_add(1),
            ..self.clone()
        }
    }

    /// Returns the frame with these tags.
    ///
    /// # Panics
    ///
    /// If the families differ, or options are too long.
    #[must_use]
    pub fn frame(&self, tags: &[u16]) -> Vec<u8> {
        let ip = match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut header = Ipv4Header::new(0, 64, IpNumber::TCP, from.octets(), to.octets()).unwrap();
                header.options = vec![1; self.ip_options].as_slice().try_into().unwrap();
                IpHeaders::Ipv4(header, Default::default())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let header = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: 0,
                    next_header: IpNumber::TCP,
                    hop_limit: 64,
                    source: from.octets(),
                    destination: to.octets(),
                };
                IpHeaders::Ipv6(header, Default::default())
            }
            _ => panic!("two families"),
        };
        let mut header = TcpHeader::new(self.from.port(), self.to.port(), self.sequence, 64_000);
        let has = |flag| self.flags & flag != 0;
        (header.fin, header.syn, header.rst) = (has(Self::FIN), has(Self::SYN), has(Self::RST));
        (header.psh, header.urg) = (has(Self::PSH), has(Self::URG));
        (header.ack, header.acknowledgment_number) =
            (self.acknowledgement.is_some(), self.acknowledgement.unwrap_or_default());
        header.set_options_raw(&self.options).unwrap();
        let mut bytes = Vec::new();
        PacketBuilder::ip(ip).tcp_header(header).write(&mut bytes, &self.payload).unwrap();
        let mut frame = framed(&bytes, tags);
        frame[6..12].copy_from_slice(&Self::CLIENT);
        frame
    }

    /// Checks addresses, ports, lengths and checksums of a frame from the server to this client. Returns its TCP header
    /// and its payload. None if it is another frame.
    ///
    /// # Panics
    ///
    /// If something is wrong.
    #[must_use]
    #[track_caller]
    pub fn answer(&self, tags: &[u16], frame: &[u8]) -> Option<(TcpHeader, Vec<u8>)> {
        let link = 14 + 4 * tags.len();
        let packet = SlicedPacket::from_ip(frame.get(link..)?).ok()?;
        let TransportSlice::Tcp(tcp) = packet.transport.as_ref()? else { return None };
        let (header, payload) = (tcp.to_header(), tcp.payload().to_vec());
        let (ends, length, sum) = match packet.net.as_ref()? {
            NetSlice::Ipv4(ip) => {
                let ip = ip.header().to_header();
                assert_eq!((ip.calc_header_checksum(), ip.options.is_empty()), (ip.header_checksum, true));
                let ends = [ip.source, ip.destination].map(IpAddr::from);
                (ends, usize::from(ip.total_len) - 20, header.calc_checksum_ipv4(&ip, &payload))
            }
            NetSlice::Ipv6(ip) => {
                let ip = ip.header().to_header();
                let ends = [ip.source, ip.destination].map(IpAddr::from);
                (ends, usize::from(ip.payload_length), header.calc_checksum_ipv6(&ip, &payload))
            }
            other => panic!("{other:?}"),
        };
        if ends != [self.to.ip(), self.from.ip()]
            || [header.source_port, header.destination_port] != [self.to.port(), self.from.port()]
        {
            return None;
        }
        assert_eq!(length, header.header_len() + payload.len());
        assert_eq!(sum.unwrap(), header.checksum, "{frame:x?}");
        Some((header, payload))
    }

    /// Checks the SYN-ACK with a cookie that answers this SYN, in a frame with these tags, over an interface with this
    /// MTU. Returns the cookie.
    ///
    /// # Panics
    ///
    /// If something is wrong.
    #[track_caller]
    pub fn cookie(&self, tags: &[u16], sent: &[u8], answer: &[u8], mtu: usize) -> u32 {
        assert!(answer.len() <= sent.len(), "{} bytes for {}", answer.len(), sent.len());
        let link = 14 + 4 * tags.len();
        assert_eq!((&answer[..12], &answer[12..link]), (&[Self::CLIENT, MAC].concat()[..], &sent[12..link]));
        let (header, payload) = self.answer(tags, answer).expect("the answer belongs to another segment");
        assert_eq!(payload, [0; 0]);
        assert!(header.syn && header.ack);
        assert!(!header.rst && !header.fin && !header.psh && !header.urg && !header.ece && !header.cwr && !header.ns);
        assert_eq!(header.acknowledgment_number, self.sequence.wrapping_add(1));
        let headers = if self.from.is_ipv4() { 40 } else { 60 };
        let size = (mtu - headers).min(usize::from(u16::MAX)) as u16;
        let [high, low] = size.to_be_bytes();
        let option: &[u8] = if self.options.is_empty() { &[] } else { &[2, 4, high, low] };
        assert_eq!(header.options.as_slice(), option);
        header.sequence_number
    }
}
