use super::*;
use crate::identity::class::key;
use proptest::prelude::*;
extern crate std;
use std::{boxed::Box, vec::Vec};

/// Ports and ranges without a port in common.
const RANGES: [(u16, u16); 5] = [(0, 0), (1, 1), (2, 4), (6, 9), (60_000, u16::MAX)];

fn service() -> impl Strategy<Value = Service> {
    let transport = prop::sample::select(&Transport::ALL[..]);
    // Few ports and protocols, so that some meet.
    prop_oneof![
        prop::sample::select(&[TCP, UDP, SCTP, 47][..]).prop_map(Service::Protocol),
        Just(Service::Icmp),
        (transport, prop::sample::select(&RANGES[..]))
            .prop_map(|(transport, (first, last))| { Service::Ports(transport, first, last) }),
        Just(Service::TcpSyn),
    ]
}

fn ports() -> impl Strategy<Value = (u16, u16)> {
    (0u16..20, 0u16..20).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

#[test]
fn an_entry_without_a_last_port_is_one_port() {
    let entry = ClassEntry { last_port: 0, ..ClassEntry::of(Service::port(Transport::Tcp, 443)) };
    assert_eq!(entry.service(), Service::port(Transport::Tcp, 443));
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
        for port in [0, 1, 2, 3, 4, 5, 6, 9, 10, 59_999, 60_000, u16::MAX] {
            let at = usize::from(port);
            let range = RANGES.into_iter().find(|(first, last)| (*first..=*last).contains(&port));
            let (first, last) = range.unwrap_or((port, port));
            let [tcp, udp, sctp] = Transport::ALL.map(|transport| {
                [Service::Ports(transport, first, last), Service::Protocol(transport.protocol())]
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
            prop_assert_eq!(classes(&services, of_port(&services, Transport::Tcp, port)), packed(&tcp));
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

    #[test]
    fn services_overlap_if_they_have_a_port_in_common(a in ports(), b in ports()) {
        let has = |(first, last): (u16, u16), port| Service::Ports(Transport::Udp, first, last).has_port(Transport::Udp, port);
        let common = (0..20).any(|port| has(a, port) && has(b, port));
        let [one, other] = [a, b].map(|(first, last)| Service::Ports(Transport::Udp, first, last));
        prop_assert_eq!(one.overlaps(other), common && a != b);
        prop_assert!(!one.overlaps(Service::Ports(Transport::Tcp, b.0, b.1)));
    }
}
