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
    /// Packets to a port, of a protocol that has ports.
    Port(Transport, u16),
    /// Packets that ask for a new TCP connection: SYN without ACK.
    TcpSyn,
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
    /// Of a [`Service::Protocol`] or a [`Service::Port`].
    pub protocol: u8,
    /// Of a [`Service::Port`].
    pub port: u16,
    /// [Policy](crate::limits::policy::PolicyId) of sources without a rule for the service; 0 means none.
    pub default_policy: u32,
    /// Cost of each of its packets in limits of packets; 0 if none is set.
    pub cost: u16,
    /// Origin of the default, as in [`crate::rules::rule`].
    pub default_origin: u8,
    /// Origin of the cost.
    pub cost_origin: u8,
}
boundary!(ClassEntry, size 12);

// The values of `ClassEntry::kind`.
const PROTOCOL: u8 = 1;
const BOTH_ICMP: u8 = 2;
const PORT: u8 = 3;
const NEW_CONNECTIONS: u8 = 4;

impl ClassEntry {
    /// The entry of a service that has no default yet.
    #[must_use]
    pub const fn of(service: Service) -> Self {
        let (kind, protocol, port) = match service {
            Service::Any => (0, 0, 0),
            Service::Protocol(protocol) => (PROTOCOL, protocol, 0),
            Service::Icmp => (BOTH_ICMP, 0, 0),
            Service::Port(transport, port) => (PORT, transport.protocol(), port),
            Service::TcpSyn => (NEW_CONNECTIONS, 0, 0),
        };
        Self { kind, protocol, port, default_policy: 0, cost: 0, default_origin: 0, cost_origin: 0 }
    }

    /// The service; [`Service::Any`] where the class is free.
    #[must_use]
    pub fn service(&self) -> Service {
        match self.kind {
            PROTOCOL => Service::Protocol(self.protocol),
            BOTH_ICMP => Service::Icmp,
            PORT => {
                let transport = Transport::ALL.into_iter().find(|transport| transport.protocol() == self.protocol);
                transport.map_or(Service::Any, |transport| Service::Port(transport, self.port))
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
    /// Makes these the services that have classes. It must be all zeroes before.
    pub fn fill(&mut self, services: &[(Service, Class)]) {
        for (service, class) in services {
            match *service {
                Service::Protocol(protocol) => self.protocols[usize::from(protocol)] = Classes::from(*class),
                Service::Icmp => {
                    for icmp in [ICMP, ICMPV6] {
                        self.protocols[usize::from(icmp)] = Classes::from(*class);
                    }
                }
                Service::Any | Service::Port(..) | Service::TcpSyn => {}
            }
        }
        for transport in Transport::ALL {
            let protocol = self.protocols[usize::from(transport.protocol())];
            self.ports(transport).fill(protocol);
        }
        for (service, class) in services {
            if let Service::Port(transport, port) = *service {
                let classes = &mut self.ports(transport)[usize::from(port)];
                *classes = chain(*classes, *class);
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
        Service::Port(transport, _) => class(Service::Protocol(transport.protocol())),
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

/// The classes of packets that ask for a new connection to `port`.
#[must_use]
pub fn classes_of_new(services: &[(Service, Class)], port: u16) -> Classes {
    let tcp = classes(services, Service::Protocol(TCP));
    let of_new = narrowest(classes(services, Service::TcpSyn));
    let has_class = services.iter().any(|(service, _)| *service == Service::TcpSyn);
    let to_port = classes(services, Service::Port(Transport::Tcp, port));
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
mod tests {
    use super::*;
    use crate::identity::class::key;
    use proptest::prelude::*;
    extern crate std;
    use std::{boxed::Box, vec::Vec};

    fn service() -> impl Strategy<Value = Service> {
        let transport = prop::sample::select(&Transport::ALL[..]);
        // Few ports and protocols, so that some meet.
        prop_oneof![
            prop::sample::select(&[TCP, UDP, SCTP, 47][..]).prop_map(Service::Protocol),
            Just(Service::Icmp),
            (transport, 0u16..4).prop_map(|(transport, port)| Service::Port(transport, port)),
            Just(Service::TcpSyn),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_packet_has_the_classes_of_its_services(services in prop::collection::btree_map(service(), 1u8.., 0..12)) {
            let services: Vec<(Service, Class)> = services.into_iter().collect();
            let class = |service| services.iter().find(|(of, _)| *of == service).map(|(_, class)| *class);
            let packed = |of: &[Service]| of.iter().filter_map(|service| class(*service)).rev().fold(0, chain);
            // SAFETY: all zeroes are a valid table.
            let mut table = unsafe { Box::<Services>::new_zeroed().assume_init() };
            table.fill(&services);
            for port in [0, 1, 2, 3, 4, u16::MAX] {
                let at = usize::from(port);
                let [tcp, udp, sctp] = Transport::ALL.map(|transport| {
                    [Service::Port(transport, port), Service::Protocol(transport.protocol())]
                });
                prop_assert_eq!(table.tcp[at], packed(&tcp));
                let syn = table.tcp_syn[at];
                prop_assert_eq!(classes_of_new(&services, port), syn);
                prop_assert_eq!(syn & 0x00ff_ffff, packed(&[Service::TcpSyn, tcp[0], tcp[1]]));
                let telling = if class(Service::TcpSyn).is_some() { class(tcp[0]).unwrap_or(ANY) } else { ANY };
                prop_assert_eq!(key(syn).to_le_bytes(), [narrowest(syn), telling]);
                prop_assert_eq!(table.udp[at], packed(&udp));
                prop_assert_eq!(table.sctp[at], packed(&sctp));
                prop_assert_eq!(classes(&services, tcp[0]), packed(&tcp));
            }
            for protocol in [47, 48] {
                prop_assert_eq!(table.protocols[protocol as usize], packed(&[Service::Protocol(protocol)]));
            }
            prop_assert_eq!([ICMP, ICMPV6].map(|icmp| table.protocols[usize::from(icmp)]), [packed(&[Service::Icmp]); 2]);
        }

        #[test]
        fn an_entry_says_its_service(service in service()) {
            prop_assert_eq!(ClassEntry::of(service).service(), service);
        }
    }
}
