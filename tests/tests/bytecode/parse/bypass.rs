//! No encapsulation bypasses the rule of its source.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ratelimit_common::{
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    reason::Reason,
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{program::loader::Settings, rules::batch};
use ratelimit_tests::{Bytecode, Encapsulated, Verdict, Wrap, encapsulations, framed, kernel_at_least, per_second};

const DENIED: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xbad, 0, 0, 0, 0, 7))];
const LIMITED: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x11, 0, 0, 0, 0, 7))];
const OTHERS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xc0, 0, 0, 0, 0, 7))];

const PORT: u16 = 9;

/// One service for nearly every encapsulation, and several for some.
const SERVICES: [&str; 14] =
    ["udp/9", "udp", "tcp/9", "tcp", "tcp-syn", "sctp/9", "sctp", "icmp", "gre", "esp", "ah", "ipip", "41", "253"];

/// Packets by the name of their encapsulation.
#[derive(Default)]
struct Tally(Vec<(String, u64)>);

impl Tally {
    fn add(&mut self, name: &str, packets: u64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += packets,
            None => self.0.push((name.to_owned(), packets)),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, packets) in &self.0 {
            writeln!(f, "{name}: {packets} packets, none passed")?;
        }
        let sum: u64 = self.0.iter().map(|(_, packets)| packets).sum();
        write!(f, "{} encapsulations: {sum} packets, none passed", self.0.len())
    }
}

/// Returns default settings, with services, and for kernels without frames of several buffers.
fn every_way() -> [Settings; 3] {
    let services = Settings { services: true, ..crate::settings() };
    [crate::settings(), services, Settings { frags: false, ..services }]
}

fn set(bytecode: &mut Bytecode, target: &str, policy: Policy) {
    batch::set(&mut bytecode.tables, target.parse().unwrap(), &policy.into(), None, COMMAND).unwrap();
}

/// Sets a limit that no packet reaches, for every service.
fn open_services(bytecode: &mut Bytecode, sources: &str) {
    for service in SERVICES {
        set(bytecode, &format!("{sources} {service}"), per_second(100_000_000, 1_000_000));
    }
}

/// Loads a program with denied sources, while every service has a high limit.
fn denying(settings: Settings) -> Bytecode {
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND);
    for prefix in ["198.51.100.0/24", "2001:db8:bad::/48"] {
        set(&mut bytecode, prefix, Policy::DENIED);
    }
    if settings.services {
        open_services(&mut bytecode, "default");
    }
    bytecode
}

/// Loads a program with sources that have spent their limit for an hour, while others may use every service.
fn limiting(settings: Settings) -> Bytecode {
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND);
    let hourly =
        Limit { packets: Some(Rate { amount: 1, period: 3_600 * SECOND }), burst: Some(1), ..Limit::default() };
    for prefix in ["203.0.113.0/24", "2001:db8:11::/48"] {
        set(&mut bytecode, prefix, hourly.policy().unwrap());
    }
    if settings.services {
        open_services(&mut bytecode, "192.0.2.0/24");
        open_services(&mut bytecode, "2001:db8:c0::/48");
    }
    for source in LIMITED {
        let first = encapsulations(source, PORT).swap_remove(0);
        assert_eq!(bytecode.reason(&first.frame), Reason::WithinLimit, "{}", first.name);
    }
    bytecode
}

/// Returns each program with its sources and the expected drop reason.
fn prepared(settings: Settings) -> [(Bytecode, [IpAddr; 2], Reason); 2] {
    [(denying(settings), DENIED, Reason::Denied), (limiting(settings), LIMITED, Reason::OverPackets)]
}

/// Sends every shorter length of a frame and returns how many there are.
fn cut(bytecode: &Bytecode, encapsulated: &Encapsulated) -> u64 {
    let Encapsulated { name, frame, ip_at, dropped } = encapsulated;
    let header = if frame[*ip_at] >> 4 == 4 { 20 } else { 40 };
    // The program reads nothing beyond the type of the third tag.
    let end = if *dropped == Some(Reason::TooManyTags) { 22 } else { frame.len() };
    let before = bytecode.count(Reason::Truncated);
    for length in 14..frame.len() {
        assert_eq!(bytecode.send(&frame[..length]), Verdict::Drop, "{name} cut to {length}");
    }
    assert_eq!(bytecode.count(Reason::Truncated) - before, end as u64 - 14, "{name}");
    // The same frames with an IP header that has the shorter length.
    let announced = ip_at + header..frame.len();
    for length in announced.clone() {
        let mut frame = frame[..length].to_vec();
        let (at, told) = if header == 20 { (ip_at + 2, length - ip_at) } else { (ip_at + 4, length - ip_at - 40) };
        frame[at..at + 2].copy_from_slice(&u16::try_from(told).unwrap().to_be_bytes());
        assert_eq!(bytecode.send(&frame), Verdict::Drop, "{name} made {length} bytes long");
    }
    (14..frame.len()).chain(announced).count() as u64
}

#[test]
fn no_encapsulation_bypasses_the_rule_of_its_source() {
    let mut tally = Tally::default();
    for settings in every_way() {
        for (bytecode, sources, verdict) in prepared(settings) {
            for encapsulated in sources.into_iter().flat_map(|source| encapsulations(source, PORT)) {
                let expected = encapsulated.dropped.unwrap_or(verdict);
                assert_eq!(bytecode.reason(&encapsulated.frame), expected, "{}, {settings:?}", encapsulated.name);
                tally.add(&encapsulated.name, 1 + cut(&bytecode, &encapsulated));
            }
        }
    }
    println!("{tally}");
}

/// A valid packet of packets of an allowed source were dropped, so encapsulation alone is no reason to drop it.
#[test]
fn every_valid_encapsulation_passes_from_other_sources() {
    for settings in every_way() {
        for (bytecode, ..) in prepared(settings) {
            for encapsulated in OTHERS.into_iter().flat_map(|source| encapsulations(source, PORT)) {
                let expected = encapsulated.dropped.unwrap_or(Reason::WithinLimit);
                assert_eq!(bytecode.reason(&encapsulated.frame), expected, "{}, {settings:?}", encapsulated.name);
            }
        }
    }
}

#[test]
fn headers_beyond_the_first_buffer_do_not_bypass_a_rule() {
    if !kernel_at_least(5, 18) {
        println!("skipped: frames of several buffers need Linux 5.18");
        return;
    }
    for services in [false, true] {
        for (bytecode, sources, verdict) in prepared(Settings { services, ..crate::settings() }) {
            for (sources, verdict) in [(sources, verdict), (OTHERS, Reason::WithinLimit)] {
                let [IpAddr::V4(v4), IpAddr::V6(v6)] = sources else { unreachable!() };
                for count in 2..=8 {
                    let long = (0..count).fold(Wrap::udp(PORT), |wrap, _| wrap.behind_longer(60, u8::MAX));
                    assert_eq!(bytecode.reason(&framed(&long.v6(v6, 64), &[])), verdict, "{count} headers");
                }
                let payload = Wrap::new(17, [&[0, 9, 0, 9, 0, 0, 0, 0][..], &[0; 9_000]].concat());
                for packet in [payload.v4(v4, |_| {}), payload.v6(v6, 64)] {
                    assert_eq!(
                        bytecode.reason(&framed(&packet, &[])),
                        verdict,
                        "only the payload is beyond the first buffer"
                    );
                    assert_eq!(bytecode.reason(&framed(&packet[..packet.len() - 1], &[])), Reason::Truncated);
                }
            }
        }
    }
}
