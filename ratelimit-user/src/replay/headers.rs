//! Which bytes of a packet's headers decide about it. The program reads no others, and it finds them in the same way.

use ratelimit_common::identity::service::{ICMPV6, SCTP, Service, TCP, Transport, UDP};
use ratelimit_daemon::config::Config;

/// Bytes of the IPv6 header.
const IPV6: usize = 40;

/// Extension headers of IPv6 that the program skips, as bits, and two of them.
const EXTENSIONS: u64 = 1 << 0 | 1 << 43 | 1 << FRAGMENT | 1 << AUTHENTICATION | 1 << 60;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

/// The most extension headers of a packet that is not dropped.
const MOST_EXTENSIONS: usize = 8;

/// What the services of a file tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Needed {
    /// Whether the ports of TCP, UDP and SCTP matter.
    ports: [bool; 3],
    /// Whether the flags of TCP matter.
    flags: bool,
}

/// A packet from its IP header on, of which only the first bytes were captured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut<'p> {
    pub(super) captured: &'p [u8],
    /// Bytes of the whole packet.
    pub(super) length: usize,
    /// Whether it was in an Ethernet frame.
    pub(super) is_ethernet: bool,
}

/// The payload of an IP packet: its protocol, and where it begins and ends.
struct Payload {
    protocol: u8,
    begin: usize,
    end: usize,
}

/// A byte that decides was not captured.
struct Lost;

impl Needed {
    /// Returns what the rules of a file tell apart.
    pub(super) fn of(config: &Config) -> Self {
        let rules = config.rules.iter().map(|rule| rule.target.service);
        let services: Vec<Service> = rules.chain(config.costs.iter().map(|(service, _)| *service)).collect();
        let has_ports =
            |transport| services.iter().any(|service| matches!(service, Service::Ports(of, ..) if *of == transport));
        // A packet of an unknown source can belong to a connection.
        let finds_connections = config.requested.unknown.is_some_and(|unknown| unknown != 0);
        let ports = [Transport::Tcp, Transport::Udp, Transport::Sctp].map(has_ports);
        Self { ports, flags: finds_connections || services.contains(&Service::TcpSyn) }
    }

    /// Returns whether bytes were lost that decide about a packet. Its addresses were captured.
    pub(super) fn are_lost(self, packet: Cut<'_>) -> bool {
        match packet.payload() {
            Err(Lost) => true,
            Ok(None) => false,
            Ok(Some(Payload { protocol, begin, end })) => {
                let [tcp, udp, sctp] = self.ports;
                // The shortest header, and the bytes of it that tell the service.
                let (header, telling) = match protocol {
                    TCP if self.flags => (20, 14),
                    TCP if tcp => (20, 4),
                    UDP if udp => (8, 4),
                    SCTP if sctp => (12, 4),
                    _ => return false,
                };
                // A packet that ends within the header is refused for that.
                begin + header <= end && packet.captured.len() < begin + telling
            }
        }
    }
}

impl Cut<'_> {
    /// Returns its payload. None if the IP headers alone decide.
    fn payload(&self) -> Result<Option<Payload>, Lost> {
        match self.byte(0)? >> 4 {
            4 => self.of_ipv4(),
            6 => self.of_ipv6(),
            _ => Ok(None),
        }
    }

    fn of_ipv4(&self) -> Result<Option<Payload>, Lost> {
        let (begin, end) = (usize::from(self.byte(0)? & 15) * 4, self.word(2)?);
        let is_later_fragment = self.word(6)? & 0x1fff != 0;
        let is_whole = begin >= 20 && begin <= end && end <= self.length;
        let payload = Payload { protocol: self.byte(9)?, begin, end };
        Ok((is_whole && !is_later_fragment).then_some(payload))
    }

    fn of_ipv6(&self) -> Result<Option<Payload>, Lost> {
        let (mut begin, end) = (IPV6, IPV6 + self.word(4)?);
        let mut protocol = self.byte(6)?;
        if end > self.length {
            return Ok(None);
        }
        if protocol == ICMPV6 && self.is_ethernet && self.byte(7)? == u8::MAX && begin < end {
            // Its type tells whether it is neighbour discovery.
            self.byte(begin)?;
        }
        for _ in 0..MOST_EXTENSIONS {
            if !is_extension(protocol) {
                break;
            }
            if begin + 8 > end {
                return Ok(None);
            }
            let (next, units) = (self.byte(begin)?, usize::from(self.byte(begin + 1)?));
            begin += match protocol {
                FRAGMENT if self.word(begin + 2)? & 0xfff8 != 0 => return Ok(None),
                FRAGMENT => 8,
                AUTHENTICATION => (units + 2) * 4,
                _ => (units + 1) * 8,
            };
            protocol = next;
        }
        Ok((begin <= end && !is_extension(protocol)).then_some(Payload { protocol, begin, end }))
    }

    fn byte(&self, at: usize) -> Result<u8, Lost> {
        self.captured.get(at).copied().ok_or(Lost)
    }

    fn word(&self, at: usize) -> Result<usize, Lost> {
        Ok(usize::from(u16::from_be_bytes([self.byte(at)?, self.byte(at + 1)?])))
    }
}

fn is_extension(protocol: u8) -> bool {
    protocol < 64 && EXTENSIONS >> protocol & 1 != 0
}

#[cfg(test)]
mod tests {
    use ratelimit_daemon::config;

    use super::*;

    fn needed(file: &str) -> Needed {
        Needed::of(&config::parse(&format!("interfaces = [\"eth0\"]\n{file}"), |_| 0).unwrap())
    }

    /// Returns an IPv6 packet with these headers between its own and the payload. The first one is of this kind.
    fn ipv6(kind: u8, extensions: &[u8], payload: usize) -> Vec<u8> {
        let length = (extensions.len() + payload) as u16;
        let [high, low] = length.to_be_bytes();
        [&[0x60, 0, 0, 0, high, low, kind, 64][..], &[1; 32], extensions, &vec![0; payload]].concat()
    }

    fn ipv4(protocol: u8, options: usize, fragment: u16, payload: usize) -> Vec<u8> {
        let (header, [high, low]) = (20 + options, fragment.to_be_bytes());
        let [total_high, total_low] = ((header + payload) as u16).to_be_bytes();
        let first = 0x40 | (header / 4) as u8;
        let head = [first, 0, total_high, total_low, 0, 0, high, low, 64, protocol, 0, 0, 203, 0, 113, 7, 192, 0, 2, 1];
        [&head[..], &vec![0; options + payload]].concat()
    }

    /// Returns the fewest captured bytes with which a packet can be judged, the addresses included.
    fn fewest(needed: Needed, packet: &[u8], length: usize) -> usize {
        let addresses = if packet[0] >> 4 == 4 { 20 } else { 40 };
        let is_lost =
            |captured: usize| needed.are_lost(Cut { captured: &packet[..captured], length, is_ethernet: true });
        let fewest = (addresses..=packet.len()).find(|captured| !is_lost(*captured)).unwrap();
        assert!((fewest..=packet.len()).all(|captured| !is_lost(captured)), "{packet:?}");
        fewest
    }

    #[test]
    fn what_decides_depends_on_the_packet_and_on_the_services_of_the_file() {
        let all = needed(
            "[service.tcp-syn]\npackets = \"1/s\"\n[service.\"tcp/443\"]\npackets = \"1/s\"\n\
                          [service.\"udp/53\"]\npackets = \"1/s\"\n[service.\"sctp/9\"]\npackets = \"1/s\"\n",
        );
        let (none, tcp) =
            (needed("[default]\npackets = \"1/s\"\n"), needed("[service.\"tcp/443\"]\npackets = \"1/s\"\n"));
        let (protocols, unknown) =
            (needed("[service.tcp]\npackets = \"1/s\"\n"), needed("[settings]\nunknown = \"9/s\"\n"));
        let (options, first, later) =
            ([60, 0, 1, 4, 0, 0, 0, 0], [TCP, 0, 0, 1, 0, 0, 0, 9], [TCP, 0, 0, 9, 0, 0, 0, 9]);
        let two = [&options[..], &[TCP, 1], &[0; 14]].concat();
        for (packet, of_all, of_tcp, of_none) in [
            (ipv4(TCP, 0, 0x4000, 40), 34, 24, 20),
            (ipv4(TCP, 8, 0, 40), 42, 32, 20),
            (ipv4(UDP, 0, 0, 40), 24, 20, 20),
            (ipv4(SCTP, 0, 0, 40), 24, 20, 20),
            (ipv4(1, 0, 0, 40), 20, 20, 20),
            // A later fragment has no ports, and a header that the packet itself cuts is refused.
            (ipv4(TCP, 0, 5, 40), 20, 20, 20),
            (ipv4(TCP, 0, 0x2000, 19), 20, 20, 20),
            (ipv4(TCP, 0, 0x2000, 40), 34, 24, 20),
            (ipv6(TCP, &[], 40), 54, 44, 40),
            (ipv6(UDP, &[], 40), 44, 40, 40),
            (ipv6(ICMPV6, &[], 40), 40, 40, 40),
            (ipv6(0, &two, 40), 40 + 24 + 14, 40 + 24 + 4, 40 + 8 + 2),
            (ipv6(FRAGMENT, &first, 40), 40 + 8 + 14, 40 + 8 + 4, 44),
            (ipv6(FRAGMENT, &later, 40), 44, 44, 44),
            (ipv6(AUTHENTICATION, &[UDP, 4, 0, 0], 40), 40 + 24 + 4, 42, 42),
            (ipv6(59, &[], 40), 40, 40, 40),
        ] {
            let length = packet.len();
            let found = [all, tcp, none].map(|needed| fewest(needed, &packet, length));
            assert_eq!(found, [of_all, of_tcp, of_none], "{packet:?}");
            assert_eq!(fewest(protocols, &packet, length), of_none, "{packet:?}");
            let of_connections = if of_all != of_tcp && of_tcp != of_none { of_all } else { of_none };
            assert_eq!(fewest(unknown, &packet, length), of_connections, "{packet:?}");
            // Of a packet that ends before its own end, this is all that matters.
            assert!(fewest(all, &packet, length - 1) <= 40);
        }
    }

    #[test]
    fn neighbour_discovery_is_known_by_a_byte_behind_the_header() {
        let mut packet = ipv6(ICMPV6, &[], 24);
        packet[7] = 255;
        assert_eq!(fewest(Needed::default(), &packet, packet.len()), 41);
        let captured = &packet[..40];
        assert!(!Needed::default().are_lost(Cut { captured, length: packet.len(), is_ethernet: false }));
    }
}
