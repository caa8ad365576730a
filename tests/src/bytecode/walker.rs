//! Packets of many sources for one program, without a network. Benchmarks measure with it.

use std::{fmt, net::Ipv4Addr};

use aya::{
    Ebpf, EbpfLoader, TestRun as _, TestRunOptions,
    maps::{Array, Map, MapData, ProgramArray},
    programs::{Xdp, XdpMode},
};
use aya_obj::programs::XdpAttachType;
use ratelimit_sandbox::OBJECT;
use serde::{Serialize, Serializer};

use super::mapped::Mapped;
use crate::{Frame, Namespace, scatter};

/// Number of sources of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sources {
    /// This many sources.
    Count(u32),
    /// A new source for each packet.
    Endless,
}

/// Order of the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// In turn.
    InTurn,
    /// Random.
    Random,
}

/// First number of sources that never repeat, so that they differ from those that do.
const ENDLESS_FROM: u64 = 1 << 24;
/// Offset of the IPv4 source in an untagged Ethernet frame.
const SOURCE_AT: u32 = 26;

/// Verdict of a walker without a program to call (`linux/bpf.h`). The product never returns it.
const XDP_ABORTED: u32 = 0;

/// Runs a program on packets of many sources. Any number of walkers can run the same program at a time.
pub struct Walker {
    frame: Vec<u8>,
    ebpf: Ebpf,
    next: ProgramArray<MapData>,
    target: Option<Xdp>,
    state: Array<MapData, [u64; 2]>,
    table: Mapped,
    /// Contents of the table.
    filled: Option<(u32, Order)>,
    first: u32,
    counted: u64,
    endless: u64,
    _namespace: Namespace,
}

impl Walker {
    /// Creates a walker with UDP packets to `port`, whose sources are numbered from `first` on.
    ///
    /// # Panics
    ///
    /// If the kernel refuses, for example without root.
    #[must_use]
    pub fn new(port: u16, first: u32) -> Self {
        Self::of(Frame::udp(Self::source(first), port).bytes(), SOURCE_AT, first)
    }

    /// Creates a walker whose packets are like this frame, but for the 32 bits of their source at this offset. Sources
    /// are numbered from `first` on.
    ///
    /// # Panics
    ///
    /// If the kernel refuses, for example without root.
    #[must_use]
    pub fn of(frame: Vec<u8>, source_at: u32, first: u32) -> Self {
        let mut loader = EbpfLoader::new();
        let mut ebpf =
            loader.override_global("SOURCE_AT", &source_at, true).load(OBJECT).expect("cannot load the walker");
        let next = ebpf.take_map("NEXT").unwrap().try_into().unwrap();
        let state = ebpf.take_map("WALK").unwrap().try_into().unwrap();
        let Some(Map::Array(table)) = ebpf.take_map("TABLE") else { panic!("the walker has no table") };
        let program: &mut Xdp = ebpf.program_mut("walk").unwrap().try_into().unwrap();
        program.load().expect("the kernel refuses the walker");
        // As for the product's program in `Bytecode`.
        let (namespace, _) = Namespace::pair();
        namespace.run(|| program.attach("lo", XdpMode::Skb)).expect("cannot attach to the loopback interface");
        let (table, filled) = (Mapped::of(&table), None);
        Self {
            frame,
            ebpf,
            next,
            target: None,
            state,
            table,
            filled,
            first,
            counted: 0,
            endless: ENDLESS_FROM + u64::from(first),
            _namespace: namespace,
        }
    }

    /// Returns the source with this number.
    #[must_use]
    pub fn source(number: u32) -> Ipv4Addr {
        scatter::spread(number).into()
    }

    /// Returns a pseudo-random number that depends only on `number`.
    #[must_use]
    pub fn draw(number: u64) -> u64 {
        scatter::scattered(number)
    }

    /// Makes later runs call this program, which must accept frames of several buffers.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn lead_to(&mut self, program: &Xdp) {
        self.next.set(0, program.fd().unwrap(), 0).expect("the kernel refuses to call this program");
        let info = program.info().expect("cannot read the program");
        let target = Xdp::from_program_info(info, "target".into(), XdpAttachType::Interface);
        self.target = Some(target.expect("cannot open the program again"));
    }

    /// Runs the program on this many packets, on the calling thread.
    ///
    /// # Panics
    ///
    /// If the kernel refuses to run it, or the packets do not reach the program.
    pub fn run(&mut self, sources: Sources, order: Order, packets: u32) {
        let mask = match sources {
            Sources::Count(count) => self.fill(count, order) - 1,
            Sources::Endless => 0,
        };
        let number = if mask == 0 { &mut self.endless } else { &mut self.counted };
        // Starts at the first source, so that every source gets the same number of packets.
        let begin = if mask != 0 && order == Order::InTurn { 0 } else { *number };
        *number += u64::from(packets);
        self.walk(sources, [begin, u64::from(mask)], packets);
    }
}

impl Walker {
    /// Runs the program on one packet of each of `part` sources out of `count`, from the source `from` on.
    ///
    /// # Panics
    ///
    /// As [`Self::run`].
    pub fn run_part(&mut self, count: u32, from: u32, part: u32) {
        let mask = self.fill(count, Order::InTurn) - 1;
        self.walk(Sources::Count(count), [u64::from(from), u64::from(mask)], part);
    }

    /// Runs the program on packets from this place of the table on.
    fn walk(&mut self, sources: Sources, state: [u64; 2], packets: u32) {
        self.state.set(0, state, 0).expect("cannot write to a map");
        let walk: &Xdp = self.ebpf.program("walk").unwrap().try_into().unwrap();
        // A single source needs no rewriting of packets.
        let target = self.target.as_ref().filter(|_| sources == Sources::Count(1));
        let program = target.unwrap_or(walk);
        let mut options = TestRunOptions::new();
        options.data_in = Some(&self.frame);
        options.repeat = packets;
        let verdict = program.test_run(options).expect("cannot run the walker").return_value;
        assert_ne!(verdict, XDP_ABORTED, "the walker did not reach the program");
    }

    /// Writes `count` sources into the table and returns its number of entries, a power of two.
    fn fill(&mut self, count: u32, order: Order) -> u32 {
        let entries = (4 * count).next_power_of_two().clamp(1 << 12, 1 << 20);
        if self.filled != Some((count, order)) {
            let index = |entry: u32| match order {
                Order::InTurn => entry % count,
                Order::Random => (scatter::scattered(u64::from(entry)) % u64::from(count)) as u32,
            };
            self.table.fill((0..entries).map(|entry| scatter::spread(self.first + index(entry))));
            self.filled = Some((count, order));
        }
        entries
    }
}

impl Serialize for Sources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Count(count) => serializer.serialize_u32(count),
            Self::Endless => serializer.serialize_str("endless"),
        }
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Count(count) if count >= 1_000_000 => write!(f, "{} M", count / 1_000_000),
            Self::Count(count) if count >= 1_000 => write!(f, "{} k", count / 1_000),
            Self::Count(count) => write!(f, "{count}"),
            Self::Endless => f.write_str("endless"),
        }
    }
}
