//! Services as text.

use std::{fmt, str::FromStr};

use ratelimit_common::identity::service::{ICMP, ICMPV6, Service, Transport};

/// A service with its name: `tcp`, `udp/53`, `tcp/8000-8099`, `icmp`, `tcp-syn`, `47`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceName(pub Service);

/// Text that cannot be parsed as a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The text names no protocol.
    #[error(
        "expected tcp, udp or sctp with or without a port (udp/53), tcp-syn, icmp, gre, esp, ah, ipip, or a protocol number"
    )]
    Protocol,
    /// The number is probably meant as a port.
    #[error("{0} could be a port: write tcp/{0} or udp/{0}, or ip/{0} for the protocol with this number")]
    PortAlone(u16),
    /// The text after the slash is not a port.
    #[error(
        "expected a port from 0 to 65535 or a range (8000-8099) after the slash; for others, give each its own rule"
    )]
    Port,
    /// The range ends before it begins.
    #[error("the range of ports ends before it begins: write {1}-{0}")]
    Reversed(u16, u16),
    /// The protocol has no ports.
    #[error("only tcp, udp and sctp have ports: omit the slash and the port")]
    NoPorts,
    /// The number is that of an IPv6 extension header.
    #[error("{0} is an IPv6 extension header, not a service: packets are matched by the protocol after it")]
    Extension(u8),
    /// The text names ICMP of one address family.
    #[error("ICMP is one service for IPv4 and IPv6: write icmp")]
    OneFamily,
}

/// Names and numbers of protocols without ports.
const NAMES: [(&str, u8); 4] = [("gre", 47), ("esp", 50), ("ah", 51), ("ipip", 4)];

/// Numbers of unused protocols that are also those of common ports.
const PORTS: [u8; 8] = [21, 22, 23, 25, 53, 80, 110, 123];

/// Extension headers that the program skips. The authentication header is one too, but it is a protocol in IPv4.
const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];

impl FromStr for ServiceName {
    type Err = ServiceError;

    fn from_str(text: &str) -> Result<Self, ServiceError> {
        let (protocol, port) = match text.split_once('/') {
            Some((protocol, port)) => (protocol, Some(port)),
            None => (text, None),
        };
        let service = match protocol {
            "icmp" => Service::Icmp,
            "tcp-syn" => Service::TcpSyn,
            "ip" if let Some(number) = port => return Ok(Self(Service::Protocol(protocol_number(number)?))),
            "icmpv6" | "icmp6" | "ipv6-icmp" => return Err(ServiceError::OneFamily),
            _ => Service::Protocol(number(protocol)?),
        };
        let transport = Transport::ALL.into_iter().find(|transport| service == Service::Protocol(transport.protocol()));
        let service = match (service, port, transport) {
            (_, None, _) => service,
            (_, Some(port), Some(transport)) => {
                let (first, last) = ports(port)?;
                Service::Ports(transport, first, last)
            }
            (_, Some(_), None) => return Err(ServiceError::NoPorts),
        };
        Ok(Self(service))
    }
}

/// Returns the first and the last port of `53` or `8000-8099`.
fn ports(text: &str) -> Result<(u16, u16), ServiceError> {
    let port = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits).ok_or(ServiceError::Port)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if last < first { Err(ServiceError::Reversed(first, last)) } else { Ok((first, last)) }
}

fn number(protocol: &str) -> Result<u8, ServiceError> {
    let transports = Transport::ALL.map(|transport| (name(transport), transport.protocol()));
    if let Some((_, number)) = transports.iter().chain(&NAMES).find(|(name, _)| *name == protocol) {
        return Ok(*number);
    }
    match protocol.parse::<u16>() {
        Ok(port) if u8::try_from(port).map_or(true, |number| PORTS.contains(&number)) => {
            Err(ServiceError::PortAlone(port))
        }
        _ => protocol_number(protocol),
    }
}

fn protocol_number(text: &str) -> Result<u8, ServiceError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse().ok().filter(|_| digits) {
        Some(ICMP | ICMPV6) => Err(ServiceError::OneFamily),
        Some(extension) if EXTENSIONS.contains(&extension) => Err(ServiceError::Extension(extension)),
        number => number.ok_or(ServiceError::Protocol),
    }
}

fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
        Transport::Sctp => "sctp",
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Service::Any => f.write_str("any"),
            Service::Icmp => f.write_str("icmp"),
            Service::TcpSyn => f.write_str("tcp-syn"),
            Service::Ports(transport, first, last) if first == last => write!(f, "{}/{first}", name(transport)),
            Service::Ports(transport, first, last) => write!(f, "{}/{first}-{last}", name(transport)),
            Service::Protocol(protocol) => {
                let transports = Transport::ALL.map(|transport| (name(transport), transport.protocol()));
                match transports.iter().chain(&NAMES).find(|(_, number)| *number == protocol) {
                    Some((name, _)) => f.write_str(name),
                    None if PORTS.contains(&protocol) => write!(f, "ip/{protocol}"),
                    None => write!(f, "{protocol}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_services_read_the_same() {
        for text in [
            "tcp",
            "udp/53",
            "sctp/0",
            "tcp/65535",
            "tcp/8000-8099",
            "udp/0-65535",
            "icmp",
            "tcp-syn",
            "gre",
            "esp",
            "ah",
            "ipip",
            "ip/80",
            "253",
            "255",
        ] {
            assert_eq!(text.parse::<ServiceName>().map(|service| service.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("tcp/80-80".parse::<ServiceName>(), "tcp/80".parse());
        let is_service = |protocol: &u8| ![ICMP, ICMPV6].contains(protocol) && !EXTENSIONS.contains(protocol);
        for protocol in (0..=u8::MAX).filter(is_service) {
            let service = ServiceName(Service::Protocol(protocol));
            let alone = protocol.to_string().parse();
            match PORTS.contains(&protocol) {
                true => assert_eq!(alone, Err(ServiceError::PortAlone(protocol.into()))),
                false => assert_eq!(alone, Ok(service)),
            }
            assert_eq!(service.to_string().parse(), Ok(service));
        }
    }

    #[test]
    fn invalid_services_are_refused() {
        let error = |text: &str| text.parse::<ServiceName>().unwrap_err();
        for text in ["", "any", "dns", "65536", "-1", "+6", "TCP", "dns/53"] {
            assert_eq!(error(text), ServiceError::Protocol, "{text}");
        }
        assert_eq!(error("tcp/90-80"), ServiceError::Reversed(90, 80));
        for text in ["tcp/", "udp/65536", "tcp/http", "udp/+53", "6/x", "tcp/1-", "tcp/-2", "tcp/1-2-3", "udp/1-65536"]
        {
            assert_eq!(error(text), ServiceError::Port, "{text}");
        }
        for text in ["icmp/8", "tcp-syn/80", "gre/1", "47/1"] {
            assert_eq!(error(text), ServiceError::NoPorts, "{text}");
        }
        for (text, port) in [("80", 80), ("443", 443), ("53/udp", 53)] {
            assert_eq!(error(text), ServiceError::PortAlone(port), "{text}");
        }
        for extension in EXTENSIONS {
            assert_eq!(error(&extension.to_string()), ServiceError::Extension(extension));
        }
        for text in ["icmpv6", "58", "1"] {
            assert_eq!(error(text), ServiceError::OneFamily, "{text}");
        }
    }
}
