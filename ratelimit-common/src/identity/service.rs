//! Services: classes of packets that can have limits of their own, with a bucket for each source.

use crate::{
    boundary,
    identity::class::{ANY, Class, Classes, TELLING_SHIFT, chain, narrowest},
};

/// A class of packets, as an operator names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Service {
    /// Every packet, and each that no narrower service has a rule for. Later fragments are in no other: they have no
    /// ports.
    #[default]
    Any,
    /// Every packet of an IP protocol, by its number.
    Protocol(u8),
    /// ICMP of both families.
    Icmp,
    /// Packets to any port from the first to the last, of a protocol that has ports.
    Ports(Transport, u16, u16),
    /// Packets that ask for a new TCP connection: SYN without ACK.
    TcpSyn,
}

impl Service {
    /// The service of one port.
    #[must_use]
    pub const fn port(transport: Transport, port: u16) -> Self {
        Self::Ports(transport, port, port)
    }

    /// Returns whether packets to a port of this protocol belong to it.
    #[must_use]
    pub fn has_port(self, transport: Transport, port: u16) -> bool {
        matches!(self, Self::Ports(of, first, last) if of == transport && (first..=last).contains(&port))
    }

    /// Returns whether this is another service with some of the same ports.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::Ports(transport, first, last), Self::Ports(of, other_first, other_last)) => {
                self != other && transport == of && first <= other_last && other_first <= last
            }
            _ => false,
        }
    }
}

/// A protocol with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// The Transmission Control Protocol.
    Tcp,
    /// The User Datagram Protocol.
    Udp,
    /// The Stream Control Transmission Protocol.
    Sctp,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// The protocol's number.
    #[inline(always)]
    #[must_use]
    pub const fn protocol(self) -> u8 {
        match self {
            Self::Tcp => TCP,
            Self::Udp => UDP,
            Self::Sctp => SCTP,
        }
    }
}

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// Protocol number of SCTP.
pub const SCTP: u8 = 132;

/// One entry of the map of classes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassEntry {
    /// 0 if the class is free.
    pub kind: u8,
    /// Of a [`Service::Protocol`] or a [`Service::Ports`].
    pub protocol: u8,
    /// The first one of a [`Service::Ports`].
    pub port: u16,
    /// [Policy](crate::limits::policy::PolicyId) of sources without a rule for the service; 0 means none.
    pub default_policy: u32,
    /// Cost of each of its packets in limits of packets; 0 if none is set.
    pub cost: u16,
    /// Origin of the default, as in [`crate::rules::rule`].
    pub default_origin: u8,
    /// Origin of the cost.
    pub cost_origin: u8,
    /// The last one of a [`Service::Ports`]. Versions without ranges leave it 0.
    pub last_port: u16,
    /// Zero.
    pub reserved: u16,
}
boundary!(ClassEntry, size 16);

// The values of `ClassEntry::kind`.
const PROTOCOL: u8 = 1;
const BOTH_ICMP: u8 = 2;
const PORTS_OF: u8 = 3;
const NEW_CONNECTIONS: u8 = 4;

impl ClassEntry {
    /// The entry of a service that has no default yet.
    #[must_use]
    pub const fn of(service: Service) -> Self {
        let (kind, protocol, port, last_port) = match service {
            Service::Any => (0, 0, 0, 0),
            Service::Protocol(protocol) => (PROTOCOL, protocol, 0, 0),
            Service::Icmp => (BOTH_ICMP, 0, 0, 0),
            Service::Ports(transport, first, last) => (PORTS_OF, transport.protocol(), first, last),
            Service::TcpSyn => (NEW_CONNECTIONS, 0, 0, 0),
        };
        let (default_policy, cost, default_origin, cost_origin, reserved) = (0, 0, 0, 0, 0);
        Self { kind, protocol, port, default_policy, cost, default_origin, cost_origin, last_port, reserved }
    }

    /// The service; [`Service::Any`] where the class is free.
    #[must_use]
    pub fn service(&self) -> Service {
        match self.kind {
            PROTOCOL => Service::Protocol(self.protocol),
            BOTH_ICMP => Service::Icmp,
            PORTS_OF => {
                let transport = Transport::ALL.into_iter().find(|transport| transport.protocol() == self.protocol);
                let last = self.last_port.max(self.port);
                transport.map_or(Service::Any, |transport| Service::Ports(transport, self.port, last))
            }
            NEW_CONNECTIONS => Service::TcpSyn,
            _ => Service::Any,
        }
    }
}

/// The one entry of the map of services: the classes of every packet, worked out so that the kernel side reads one
/// number.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Services {
    /// By destination port.
    pub tcp: [Classes; PORTS],
    /// Of new connections, by destination port.
    pub tcp_syn: [Classes; PORTS],
    /// By destination port.
    pub udp: [Classes; PORTS],
    /// By destination port.
    pub sctp: [Classes; PORTS],
    /// By protocol number.
    pub protocols: [Classes; 1 << 8],
}
boundary!(Services, size 1_049_600);

const PORTS: usize = 1 << 16;

impl Services {
    /// Makes these the services that have classes. It must be all zeroes before. A port of several services belongs to
    /// the last of them.
    pub fn fill(&mut self, services: &[(Service, Class)]) {
        for (service, class) in services {
            match *service {
                Service::Protocol(protocol) => self.protocols[usize::from(protocol)] = Classes::from(*class),
                Service::Icmp => {
                    for icmp in [ICMP, ICMPV6] {
                        self.protocols[usize::from(icmp)] = Classes::from(*class);
                    }
                }
                Service::Any | Service::Ports(..) | Service::TcpSyn => {}
            }
        }
        for transport in Transport::ALL {
            let protocol = self.protocols[usize::from(transport.protocol())];
            self.ports(transport).fill(protocol);
        }
        for (service, class) in services {
            if let Service::Ports(transport, first, last) = *service {
                let classes = chain(self.protocols[usize::from(transport.protocol())], *class);
                if let Some(ports) = self.ports(transport).get_mut(usize::from(first)..=usize::from(last)) {
                    ports.fill(classes);
                }
            }
        }
        let tcp = self.protocols[usize::from(TCP)];
        let of_new = services.iter().find(|(service, _)| *service == Service::TcpSyn).map_or(ANY, |(_, class)| *class);
        for (all, new) in self.tcp.iter().zip(&mut self.tcp_syn) {
            *new = of_new_connections(*all, tcp, of_new);
        }
    }

    fn ports(&mut self, transport: Transport) -> &mut [Classes; PORTS] {
        match transport {
            Transport::Tcp => &mut self.tcp,
            Transport::Udp => &mut self.udp,
            Transport::Sctp => &mut self.sctp,
        }
    }
}

/// The classes of the packets that `service` is the narrowest for.
#[must_use]
pub fn classes(services: &[(Service, Class)], service: Service) -> Classes {
    let class = |service: Service| services.iter().find(|(of, _)| *of == service).map_or(ANY, |(_, class)| *class);
    let protocol = match service {
        Service::Ports(transport, ..) => class(Service::Protocol(transport.protocol())),
        Service::TcpSyn => class(Service::Protocol(TCP)),
        Service::Any | Service::Protocol(_) | Service::Icmp => ANY,
    };
    match service {
        Service::TcpSyn => {
            let tcp = Classes::from(protocol);
            of_new_connections(tcp, tcp, class(service))
        }
        _ => chain(Classes::from(protocol), class(service)),
    }
}

/// The service with a class that has this port, or else the port itself.
#[must_use]
pub fn of_port(services: &[(Service, Class)], transport: Transport, port: u16) -> Service {
    let around = services.iter().map(|(service, _)| *service).find(|service| service.has_port(transport, port));
    around.unwrap_or(Service::port(transport, port))
}

/// The classes of packets that ask for a new connection to `port`.
#[must_use]
pub fn classes_of_new(services: &[(Service, Class)], port: u16) -> Classes {
    let tcp = classes(services, Service::Protocol(TCP));
    let of_new = narrowest(classes(services, Service::TcpSyn));
    let has_class = services.iter().any(|(service, _)| *service == Service::TcpSyn);
    let to_port = classes(services, of_port(services, Transport::Tcp, port));
    of_new_connections(to_port, tcp, if has_class { of_new } else { ANY })
}

/// Returns the classes of packets that ask for a new connection, given those of other packets to the same port, and to
/// any port.
const fn of_new_connections(port: Classes, tcp: Classes, class: Class) -> Classes {
    // Only a port's own class makes a difference: without one, the classes are the same for all ports.
    let telling = if port == tcp { ANY } else { narrowest(port) };
    if class == ANY { port } else { (telling as Classes) << TELLING_SHIFT | chain(port, class) }
}

#[cfg(test)]
mod tests;
