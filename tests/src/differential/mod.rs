//! Differential testing: frames run through the product's bytecode, its host build and etherparse.

pub mod tally;

use std::{fmt, net::IpAddr};

use ratelimit_common::{
    identity::{
        class::{ANY, Class},
        service::{ICMP, ICMPV6, Service},
        source::Source,
    },
    limits::limit::{Limit, Rate, SECOND},
    reason::{Count, REASONS, Reason},
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    readings::tracked,
    rules::{batch, services::Services},
};
use ratelimit_ebpf::{
    packet::frame::Packet,
    parse::{outcome::Stop, parser},
};

use crate::{
    Bytecode, Clock, Verdict,
    expected::{Expected, expected},
    generate::Kinds,
    reference::{Opinion, Payload, reference},
    tally::Tally,
};

/// Each service has its own limit, so the bucket of each packet reveals its service.
const SERVICES: [&str; 12] =
    ["tcp", "tcp/443", "tcp/80", "udp", "udp/53", "sctp", "sctp/9", "icmp", "tcp-syn", "gre", "ah", "200"];

/// Prefix length of an IPv6 source that is not link-local.
const IPV6_PREFIX: u8 = 64;

/// The kernel refuses frames shorter than an Ethernet header.
const SHORTEST: usize = 14;

/// Frames between two clock steps: fewer than the burst of the cap on link discovery.
const FRAMES_PER_SECOND: u64 = 5_000;

/// A comparison frame by frame.
pub struct Differential {
    bytecode: Bytecode,
    clock: Clock,
    services: Services,
    counts: [Count; REASONS],
    /// Results so far.
    pub tally: Tally,
}

/// A frame on which the product's result differs from the expected one.
#[derive(Debug)]
pub struct Mismatch {
    frame: Vec<u8>,
    theirs: Opinion,
    expected: Expected,
    product: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex: String = self.frame.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(f, "frame of {} bytes: {hex}", self.frame.len())?;
        writeln!(f, "etherparse: {:?}", self.theirs)?;
        let because: Vec<_> = self.expected.because().collect();
        writeln!(f, "expected:   {:?}, by {because:?}", self.expected.opinion)?;
        write!(f, "product:    {}", self.product)
    }
}

impl std::error::Error for Mismatch {}

impl Differential {
    /// Loads the program with a limit for each of several services that no packet reaches.
    ///
    /// # Panics
    ///
    /// If the kernel refuses it, for example without root.
    #[must_use]
    pub fn new() -> Self {
        let settings = Settings { services: true, ipv6_prefix: IPV6_PREFIX.into(), ..Settings::default() };
        let mut bytecode = Bytecode::with(Settings { cells: 0, ..settings });
        let rate = Rate { amount: 1_000_000, period: SECOND };
        let limit = Limit { packets: Some(rate), burst: Some(1_000_000), ..Limit::default() };
        let terms = limit.policy().expect("the limit is invalid").into();
        for service in ["default".to_owned()].into_iter().chain(SERVICES.map(|service| format!("default {service}"))) {
            let target = service.parse().expect("no target");
            batch::set(&mut bytecode.tables, target, &terms, None, COMMAND).expect("cannot set a rule");
        }
        bytecode.set_time(SECOND);
        let services = Services::read(&bytecode.tables).expect("cannot read the services");
        let clock = bytecode.clock();
        Self { bytecode, clock, services, counts: [Count::default(); REASONS], tally: Tally::default() }
    }

    /// Compares one frame, which was made of `kinds`.
    ///
    /// # Errors
    ///
    /// If the product's result is not the expected one, with both results.
    pub fn compare(&mut self, frame: &[u8], kinds: Kinds) -> Result<(), Box<Mismatch>> {
        let theirs = reference(frame);
        let expected = expected(frame, theirs);
        let mismatch = |product| Box::new(Mismatch { frame: frame.to_vec(), theirs, expected, product });
        on_host(frame, &expected.opinion).map_err(mismatch)?;
        self.tally.count(theirs, &expected, kinds);
        if frame.len() < SHORTEST {
            self.tally.too_short += 1;
            return Ok(());
        }
        if self.tally.frames.is_multiple_of(FRAMES_PER_SECOND) {
            self.clock.advance(SECOND);
        }
        self.on_kernel(frame, &expected.opinion).map_err(mismatch)
    }

    /// Checks that the counters contain nothing else, and that no other source was charged.
    ///
    /// # Panics
    ///
    /// If they do.
    pub fn finish(&self) {
        for ((reason, count), expected) in self.bytecode.counts().into_iter().zip(self.counts) {
            assert_eq!(count, expected, "{reason:?}");
        }
        assert_eq!(
            tracked::all(&self.bytecode.tables).expect("cannot read the buckets"),
            [],
            "unexpected sources were charged"
        );
    }

    /// Runs a frame and returns an error unless the result follows from `opinion`.
    fn on_kernel(&mut self, frame: &[u8], opinion: &Opinion) -> Result<(), String> {
        let length = frame.len() as u64;
        let (reason, source) = self.outcome(opinion);
        let verdict = self.bytecode.send(frame);
        let count = &mut self.counts[reason as usize];
        (count.packets, count.bytes) = (count.packets + 1, count.bytes + length);
        let is_so = match source {
            // The bucket is sufficient, since no other packet that passes has one.
            Some(source) => {
                let has_passed = self.take(&source, [1, length, 0, 0]);
                // A TCP SYN to a port with a class of its own also leaves a bucket that refers to the charged one.
                let of_syn = self.class_of_syn(opinion).map(|class| {
                    let mut reference = source;
                    reference.class |= class << 8;
                    reference
                });
                has_passed && of_syn.is_none_or(|reference| self.take(&reference, [0; 4]))
            }
            None => self.packets(reason) == count_of(&self.counts, reason),
        };
        if is_so && (verdict == Verdict::Pass) == reason.passes() { Ok(()) } else { Err(self.describe(verdict)) }
    }

    /// Returns the counted reason, and the charged source, if any.
    fn outcome(&self, opinion: &Opinion) -> (Reason, Option<Source>) {
        let reason = match opinion {
            Opinion::NotIp => Reason::NotIp,
            Opinion::Arp | Opinion::NeighbourDiscovery => Reason::LinkDiscovery,
            Opinion::Malformed | Opinion::Packet { payload: Payload::Contradictory, .. } => Reason::Malformed,
            Opinion::Truncated | Opinion::Packet { payload: Payload::Cut, .. } => Reason::Truncated,
            Opinion::TooManyTags => Reason::TooManyTags,
            Opinion::TooManyHeaders => Reason::TooManyHeaders,
            Opinion::Packet { source, payload } => {
                return (Reason::WithinLimit, Some(charged(source).of_class(self.class(payload))));
            }
        };
        (reason, None)
    }

    /// Returns the class of the narrowest service of a payload.
    fn class(&self, payload: &Payload) -> Class {
        let services = match *payload {
            Payload::Port { transport, port, is_new } => [
                is_new.then_some(Service::TcpSyn),
                Some(self.services.of_port(transport, port)),
                Some(Service::Protocol(transport.protocol())),
            ],
            Payload::Protocol(ICMP | ICMPV6) => [Some(Service::Icmp), None, None],
            Payload::Protocol(protocol) => [Some(Service::Protocol(protocol)), None, None],
            Payload::LaterFragment | Payload::Cut | Payload::Contradictory => [None; 3],
        };
        services.into_iter().flatten().find_map(|service| self.services.class(service)).unwrap_or(ANY)
    }

    /// Removes the bucket with these passed and dropped packets and bytes. Returns whether it exists.
    fn take(&mut self, source: &Source, counts: [u64; 4]) -> bool {
        let is_so = self.bytecode.bucket(*source).is_some_and(|bucket| {
            counts == [bucket.passed(), bucket.passed_bytes, bucket.over_limit(), bucket.dropped().bytes]
        });
        is_so && self.bytecode.tables.buckets.open_mut().unwrap().remove(source).is_ok()
    }

    /// Returns the class of the port of a TCP SYN, if it has one.
    fn class_of_syn(&self, opinion: &Opinion) -> Option<u16> {
        match *opinion {
            Opinion::Packet { payload: Payload::Port { transport, port, is_new: true }, .. } => {
                self.services.class(self.services.of_port(transport, port)).map(u16::from)
            }
            _ => None,
        }
    }

    /// Returns packets counted with one reason.
    fn packets(&self, reason: Reason) -> u64 {
        let counters = self.bytecode.tables.counters.of_reason(reason as u32).expect("cannot read a counter");
        counters.iter().map(|count| count.packets).sum()
    }

    /// Describes the result of the last frame.
    fn describe(&self, verdict: Verdict) -> String {
        let now = self.bytecode.counts().into_iter().zip(self.counts);
        let changes = now.filter(|((_, now), expected)| now != expected).map(|((reason, now), expected)| {
            format!("{reason:?} {:+}", now.packets.wrapping_sub(expected.packets).cast_signed())
        });
        let changes: Vec<_> = changes.collect();
        let tracked = tracked::all(&self.bytecode.tables).expect("cannot read the buckets");
        format!("{verdict:?}, counters off by {changes:?}, buckets {tracked:?}")
    }
}

impl Default for Differential {
    fn default() -> Self {
        Self::new()
    }
}

/// Parses a frame with the host build and returns an error unless the result follows from `opinion`. The host build
/// parses no services. It reads payloads only for neighbour discovery.
///
/// # Errors
///
/// If the results differ, with the host build's result.
pub fn on_host(frame: &[u8], opinion: &Opinion) -> Result<(), String> {
    let expected = match opinion {
        Opinion::NotIp => Err(Reason::NotIp),
        Opinion::Arp | Opinion::NeighbourDiscovery => Err(Reason::LinkDiscovery),
        Opinion::Malformed => Err(Reason::Malformed),
        Opinion::Truncated => Err(Reason::Truncated),
        Opinion::TooManyTags => Err(Reason::TooManyTags),
        Opinion::TooManyHeaders => Err(Reason::TooManyHeaders),
        Opinion::Packet { source: IpAddr::V4(source), .. } => Ok(Source::v4(source.octets())),
        Opinion::Packet { source: IpAddr::V6(source), .. } => Ok(Source::v6(source.octets(), 128)),
    };
    let said = parser::parse::<true>(&Packet::from(frame)).map(|parsed| parsed.source);
    if said == expected.map_err(Stop::Because) { Ok(()) } else { Err(format!("host build: {said:?}")) }
}

/// Returns the source that packets from an address are charged to.
fn charged(address: &IpAddr) -> Source {
    match address {
        IpAddr::V4(address) => Source::v4(address.octets()),
        IpAddr::V6(address) if address.is_unicast_link_local() => Source::v6(address.octets(), 128),
        IpAddr::V6(address) => Source::v6(address.octets(), IPV6_PREFIX),
    }
}

fn count_of(counts: &[Count; REASONS], reason: Reason) -> u64 {
    counts[reason as usize].packets
}
