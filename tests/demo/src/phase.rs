//! The script: phases with their commands, and the promises for every source.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

/// A source of packets to the victim.
#[derive(Debug)]
pub(crate) struct Source {
    /// The source's name in the product's list.
    pub(crate) name: &'static str,
    pub(crate) role: &'static str,
    pub(crate) address: IpAddr,
}

/// Index of the web client.
pub(crate) const CLIENT: usize = 0;
/// Index of the first flood in [`SOURCES`].
pub(crate) const FLOODS: usize = 1;

pub(crate) const SOURCES: [Source; 4] = [
    Source { name: "10.9.0.10", role: "web client", address: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 10)) },
    Source { name: "10.9.0.66", role: "flood", address: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 66)) },
    Source { name: "10.9.0.77", role: "flood", address: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 77)) },
    Source {
        name: "fd00:9:0:88::/64",
        role: "flood",
        address: IpAddr::V6(Ipv6Addr::new(0xfd00, 9, 0, 0x88, 0, 0, 0, 1)),
    },
];

/// Expected verdict of a source.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verdict {
    Unlimited,
    Limited(Limit),
    Denied,
}

/// Packets per second, and the burst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) rate: u32,
    pub(crate) burst: u32,
}

impl Limit {
    fn words(self) -> String {
        format!("--packets {}/s --burst {}", self.rate, self.burst)
    }
}

/// The limit of every source.
const DEFAULT: Limit = Limit { rate: 5_000, burst: 500 };
/// A stricter limit of one flooding source.
const STRICT: Limit = Limit { rate: 1_000, burst: 100 };

/// A phase of the demo.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) story: &'static str,
    /// Arguments of `ratelimit` at the start of the phase.
    pub(crate) commands: fn() -> Vec<String>,
    pub(crate) flooded: bool,
    pub(crate) time: Duration,
    /// In the order of [`SOURCES`].
    pub(crate) verdicts: [Verdict; SOURCES.len()],
}

impl Phase {
    /// Returns whether a default limit applies.
    pub(crate) fn is_limited(&self) -> bool {
        matches!(self.verdicts[CLIENT], Verdict::Limited(_))
    }
}

pub(crate) const PHASES: [Phase; 4] = [
    Phase {
        name: "calm",
        story: "the web client is alone; nothing is limited",
        commands: Vec::new,
        flooded: false,
        time: Duration::from_secs(3),
        verdicts: [Verdict::Unlimited; SOURCES.len()],
    },
    Phase {
        name: "flood",
        story: "three sources flood the host as fast as they can; nothing is limited yet",
        commands: Vec::new,
        flooded: true,
        time: Duration::from_secs(8),
        verdicts: [Verdict::Unlimited; SOURCES.len()],
    },
    Phase {
        name: "limit",
        story: "one command limits every source, while the flood goes on",
        commands: || vec![format!("limit set default {}", DEFAULT.words())],
        flooded: true,
        time: Duration::from_secs(8),
        verdicts: [Verdict::Limited(DEFAULT); SOURCES.len()],
    },
    Phase {
        name: "change",
        story: "one flooding source gets a limit of its own, another is denied",
        commands: || {
            let [_, strict, denied, _] = &SOURCES;
            vec![format!("limit set {} {}", strict.name, STRICT.words()), format!("deny add {}", denied.name)]
        },
        flooded: true,
        time: Duration::from_secs(8),
        verdicts: [Verdict::Limited(DEFAULT), Verdict::Limited(STRICT), Verdict::Denied, Verdict::Limited(DEFAULT)],
    },
];
