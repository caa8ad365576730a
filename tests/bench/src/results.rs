//! The results, as they are written to a file.

use ratelimit_tests::Sources;
use serde::Serialize;

use crate::{
    flood::{Protocol, Rate},
    machine::Machine,
    state::State,
};

/// One run of the benchmark.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    #[serde(flatten)]
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    /// Median over all cases of the spread between their rounds, relative to their median.
    pub(crate) noise: f64,
    pub(crate) reference: &'static str,
    /// The walker with an empty program.
    pub(crate) floor_nanoseconds: f64,
    pub(crate) packet: Vec<Packet>,
    pub(crate) live: Vec<Live>,
    pub(crate) attacks: Vec<Attack>,
    pub(crate) users: Vec<Felt>,
    pub(crate) survival: Vec<Survival>,
    pub(crate) accuracy: Vec<Accuracy>,
    pub(crate) two_cpus: Vec<TwoCpus>,
    pub(crate) memory: Memory,
    pub(crate) time: Time,
    pub(crate) algorithms: Vec<PerSource>,
    pub(crate) by_algorithm: Vec<Packet>,
    pub(crate) worst: Vec<Worst>,
    pub(crate) mixed: Vec<Mixed>,
}

/// The cost of a packet beyond the floor.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Packet {
    pub(crate) configuration: &'static str,
    pub(crate) state: State,
    pub(crate) sources: Sources,
    pub(crate) nanoseconds: f64,
    /// Share of the packets.
    pub(crate) dropped: f64,
}

/// Real frames that one CPU sends and receives.
#[derive(Debug, Serialize)]
pub(crate) struct Live {
    pub(crate) limiter: &'static str,
    pub(crate) state: State,
    pub(crate) sources: Sources,
    pub(crate) packets_per_second: f64,
    /// Share of the packets at the limiter.
    pub(crate) dropped: f64,
}

/// A flood by many sources.
#[derive(Debug, Serialize)]
pub(crate) struct Attack {
    pub(crate) receiver: &'static str,
    pub(crate) sources: Sources,
    /// Packets per second in the first second.
    pub(crate) first_second: f64,
    /// Packets per second later.
    pub(crate) later: f64,
    /// Share of the packets at a limiter. A plain drop refuses none.
    pub(crate) refused: f64,
}

/// What the users of a web server feel beside a flood.
#[derive(Debug, Serialize)]
pub(crate) struct Felt {
    pub(crate) protocol: Protocol,
    pub(crate) sources: Sources,
    pub(crate) rate: Rate,
    pub(crate) protection: &'static str,
    /// Packets per second that were sent.
    pub(crate) flood: f64,
    /// Pages per second.
    pub(crate) pages: f64,
    /// The 99th percentile of the time of a request. A failed request took until it failed. It is missing if the users had
    /// no time to begin a request.
    pub(crate) milliseconds: Option<f64>,
    /// Share of the requests.
    pub(crate) failed: Option<f64>,
}

/// Established sources beside a flood.
#[derive(Debug, Serialize)]
pub(crate) struct Survival {
    /// Packets per second of unknown sources together; 0 is no limit.
    pub(crate) unknown: u64,
    pub(crate) seconds: f64,
    /// Packets of the flood, and how many of them passed.
    pub(crate) flood: u64,
    pub(crate) flood_passed: u64,
    /// Packets of the established sources, and how many of them were lost.
    pub(crate) established: u64,
    pub(crate) established_lost: u64,
    /// Buckets of the established sources before the flood, and how many of these were evicted.
    pub(crate) buckets: usize,
    pub(crate) buckets_lost: usize,
}

/// The rate that a limiter admits.
#[derive(Debug, Serialize)]
pub(crate) struct Accuracy {
    pub(crate) limiter: &'static str,
    /// The limit of each source.
    pub(crate) per_second: u64,
    pub(crate) sources: u32,
    pub(crate) cpus: usize,
    /// Packets per second of all sources.
    pub(crate) admitted: f64,
    pub(crate) offered: f64,
    /// Admitted packets from the start on, by the limiter's counter and by the receiver's.
    pub(crate) counted: u64,
    pub(crate) received: u64,
}

impl Accuracy {
    /// Returns the admitted rate as a share of the configured one.
    pub(crate) fn share(&self) -> f64 {
        self.admitted / self.configured()
    }

    /// Returns the offered rate as a multiple of the configured one.
    pub(crate) fn multiple(&self) -> f64 {
        self.offered / self.configured()
    }

    fn configured(&self) -> f64 {
        self.per_second as f64 * f64::from(self.sources)
    }
}

/// The gain of a second CPU.
#[derive(Debug, Serialize)]
pub(crate) struct TwoCpus {
    pub(crate) configuration: &'static str,
    pub(crate) state: State,
    pub(crate) traffic: &'static str,
    pub(crate) one: f64,
    pub(crate) two: f64,
    pub(crate) ratio: f64,
}

/// Bytes of kernel memory, as the kernel accounts for them.
#[derive(Debug, Serialize)]
pub(crate) struct Memory {
    pub(crate) per_source: f64,
    pub(crate) all_maps: u64,
    pub(crate) maps: Vec<(String, u64)>,
}

/// Memory per source of an algorithm.
#[derive(Debug, Serialize)]
pub(crate) struct PerSource {
    pub(crate) algorithm: &'static str,
    /// Bytes of kernel memory with the maximum number of sources.
    pub(crate) bytes: f64,
    pub(crate) sources: u32,
}

/// Seconds of slow commands.
#[derive(Debug, Serialize)]
pub(crate) struct Time {
    pub(crate) host_rules: u32,
    pub(crate) set_host_rules: f64,
    pub(crate) listed_sources: u32,
    pub(crate) list_sources: f64,
}

/// The most expensive traffic of one feature.
#[derive(Debug, Serialize)]
pub(crate) struct Worst {
    pub(crate) name: &'static str,
    pub(crate) sources: Sources,
    /// The cost of a passing packet under the bare default beyond the floor.
    pub(crate) default: f64,
    /// The cost of a packet beyond the floor.
    pub(crate) nanoseconds: f64,
    /// The walker with an empty program.
    pub(crate) floor: f64,
    /// Share of the packets.
    pub(crate) dropped: f64,
    /// Whether more or fewer packets were dropped than intended.
    pub(crate) is_doubtful: bool,
}

/// Sources under a fast limit beside as many others.
#[derive(Debug, Serialize)]
pub(crate) struct Mixed {
    pub(crate) configuration: &'static str,
    /// Of each half.
    pub(crate) sources: Sources,
    /// The cost of a packet beyond the floor: without others, beside others under the same limit, and beside slow ones.
    pub(crate) alone: f64,
    pub(crate) beside_fast: f64,
    pub(crate) beside_slow: f64,
    /// Share of the packets beside slow ones that passed.
    pub(crate) passed: f64,
    /// Packets per second of each slow source that passed.
    pub(crate) slow_passed: f64,
}
