//! Captured frames: the program's decisions are compared with an independent parser.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
};

use etherparse::{IpNumber, Ipv6ExtensionSlice, LaxNetSlice, LaxSlicedPacket, TcpHeaderSlice, UdpHeaderSlice};
use ratelimit_common::{
    identity::{
        class::ANY,
        service::{Service, Transport},
        source::Source,
    },
    limits::limit::SECOND,
    reason::{Count, Reason},
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    readings::tracked,
    rules::{batch, services::Services, target::Target},
};
use ratelimit_tests::{Bytecode, Capture, captures, per_second};

/// Prefix length of an IPv6 source.
const PREFIX: u8 = 64;

/// Maximum number of services with rules at a time.
const MOST_SERVICES: usize = 255;

/// Result of the independent parser.
enum Parsed {
    /// ARP or neighbour discovery.
    Discovery,
    /// Source and narrowest service. A later fragment has no service.
    Packet(IpAddr, Service),
}

fn parsed(frame: &[u8]) -> Parsed {
    let packet = LaxSlicedPacket::from_ethernet(frame).unwrap();
    assert!(packet.link_exts.is_empty(), "a capture has tags");
    let (source, is_later, payload, is_exempt): (IpAddr, _, _, _) = match packet.net.as_ref().unwrap() {
        LaxNetSlice::Ipv4(ip) => {
            let is_later = ip.header().fragments_offset().value() != 0;
            (ip.header().source_addr().into(), is_later, ip.payload(), false)
        }
        LaxNetSlice::Ipv6(ip) => {
            let offset = ip.extensions().clone().into_iter().find_map(|extension| match extension {
                Ipv6ExtensionSlice::Fragment(fragment) => Some(fragment.fragment_offset().value()),
                _ => None,
            });
            let on_link = ip.extensions().is_empty() && ip.header().hop_limit() == 255;
            (ip.header().source_addr().into(), offset.is_some_and(|offset| offset != 0), ip.payload(), on_link)
        }
        LaxNetSlice::Arp(_) => return Parsed::Discovery,
    };
    let service = match payload.ip_number {
        _ if is_later => Service::Any,
        IpNumber::TCP => {
            let tcp = TcpHeaderSlice::from_slice(payload.payload).unwrap();
            Service::port(Transport::Tcp, tcp.destination_port())
        }
        IpNumber::UDP => {
            let udp = UdpHeaderSlice::from_slice(payload.payload).unwrap();
            Service::port(Transport::Udp, udp.destination_port())
        }
        IpNumber::IPV6_ICMP if is_exempt && (133..=137).contains(&payload.payload[0]) => return Parsed::Discovery,
        IpNumber::ICMP | IpNumber::IPV6_ICMP => Service::Icmp,
        IpNumber(protocol) => Service::Protocol(protocol),
    };
    Parsed::Packet(source, service)
}

/// Counters by source and service.
type Counts = HashMap<(IpAddr, Service), Count>;

fn add(count: &mut Count, frame: &[u8]) {
    count.packets += 1;
    count.bytes += frame.len() as u64;
}

/// Sets a limit that no packet reaches, for the services with the most packets.
fn limit_each(bytecode: &mut Bytecode, counts: &Counts) {
    let mut packets: BTreeMap<Service, u64> = BTreeMap::new();
    for ((_, service), count) in counts.iter().filter(|((_, service), _)| *service != Service::Any) {
        *packets.entry(*service).or_default() += count.packets;
    }
    let mut services: Vec<(Service, u64)> = packets.into_iter().collect();
    services.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
    let huge = per_second(100_000_000, 1_000_000);
    for (service, _) in services.into_iter().take(MOST_SERVICES) {
        batch::set(&mut bytecode.tables, Target::DEFAULT.of(service), &huge.into(), None, COMMAND).unwrap();
    }
}

/// Returns the expected buckets and their counters.
fn buckets(services: &Services, counts: &Counts) -> HashMap<Source, Count> {
    let mut buckets: HashMap<Source, Count> = HashMap::new();
    for ((address, service), count) in counts {
        let source = match address {
            IpAddr::V4(address) => Source::v4(address.octets()),
            IpAddr::V6(address) if address.is_unicast_link_local() => Source::v6(address.octets(), 128),
            IpAddr::V6(address) => Source::v6(address.octets(), PREFIX),
        };
        let sum = buckets.entry(source.of_class(services.class(*service).unwrap_or(ANY))).or_default();
        sum.packets += count.packets;
        sum.bytes += count.bytes;
    }
    buckets
}

#[test]
fn every_captured_frame_is_counted_for_the_source_and_service_that_etherparse_finds() {
    for Capture { name, frames } in captures() {
        let mut counts = Counts::new();
        let mut discovery = Count::default();
        for frame in &frames {
            match parsed(frame) {
                Parsed::Discovery => add(&mut discovery, frame),
                Parsed::Packet(source, service) => add(counts.entry((source, service)).or_default(), frame),
            }
        }
        let settings = Settings { services: true, ipv6_prefix: u32::from(PREFIX), ..crate::settings() };
        let mut bytecode = Bytecode::with(Settings { cells: 0, ..settings });
        bytecode.set_time(SECOND);
        limit_each(&mut bytecode, &counts);
        for (number, frame) in (1..).zip(&frames) {
            let reason = bytecode.reason(frame);
            let expected = match parsed(frame) {
                Parsed::Discovery => Reason::LinkDiscovery,
                Parsed::Packet(..) => Reason::WithinLimit,
            };
            assert_eq!(reason, expected, "{name}, frame {number}");
        }
        let tracked = tracked::all(&bytecode.tables).unwrap().into_iter().map(|(source, bucket)| {
            assert_eq!((bucket.over_limit(), bucket.dropped().bytes), (0, 0), "{name}, {source:?}");
            (source, Count { packets: bucket.passed(), bytes: bucket.passed_bytes })
        });
        let expected = buckets(&Services::read(&bytecode.tables).unwrap(), &counts);
        assert_eq!(tracked.collect::<HashMap<_, _>>(), expected, "{name}");
        let sources: HashSet<_> = counts.keys().map(|(source, _)| source).collect();
        let services: HashSet<_> = counts.keys().map(|(_, service)| service).collect();
        let (all, exempt) = (frames.len(), discovery.packets);
        println!(
            "{name}: {all} frames ({exempt} of link discovery), {} sources, {} services, {} buckets",
            sources.len(),
            services.len(),
            expected.len()
        );
    }
}
