//! Packets of many sources for one program, without a network: what benchmarks measure with.

use std::{fmt, net::Ipv4Addr};

use aya::{
    Ebpf, EbpfLoader, TestRun as _, TestRunOptions,
    maps::{Array, MapData, ProgramArray},
    programs::{Xdp, XdpMode},
};
use serde::{Serialize, Serializer};

use crate::{Frame, Namespace, OBJECT, scatter};

/// How many sources packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sources {
    /// This many.
    Count(u32),
    /// A new one for each packet.
    Endless,
}

/// Which source is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One after the other.
    InTurn,
    /// Any.
    Random,
}

/// Where sources that never come again begin, so that they are none of those that do.
const ENDLESS_FROM: u64 = 1 << 24;
/// Where the IPv4 source is in an Ethernet frame without tags.
const SOURCE_AT: u32 = 26;

/// Runs a program on UDP packets of many sources. Any number of walkers can run the same program at a time.
pub struct Walker {
    frame: Vec<u8>,
    ebpf: Ebpf,
    next: ProgramArray<MapData>,
    state: Array<MapData, [u64; 4]>,
    first: u32,
    counted: u64,
    endless: u64,
    _namespace: Namespace,
}

impl Walker {
    /// Makes one whose packets go to `port`, and whose sources are numbered from `first` on.
    ///
    /// # Panics
    ///
    /// Where the kernel refuses, as it does without root's privileges.
    #[must_use]
    pub fn new(port: u16, first: u32) -> Self {
        let mut loader = EbpfLoader::new();
        let mut ebpf =
            loader.override_global("SOURCE_AT", &SOURCE_AT, true).load(OBJECT).expect("cannot load the walker");
        let next = ebpf.take_map("NEXT").unwrap().try_into().unwrap();
        let state = ebpf.take_map("WALK").unwrap().try_into().unwrap();
        let program: &mut Xdp = ebpf.program_mut("walk").unwrap().try_into().unwrap();
        program.load().expect("the kernel refuses the walker");
        // As for the product's program, see `Bytecode`.
        let (namespace, _) = Namespace::pair();
        namespace.run(|| program.attach("lo", XdpMode::Skb)).expect("cannot attach to the loopback interface");
        let frame = Frame::udp(Ipv4Addr::LOCALHOST, port).bytes();
        Self { frame, ebpf, next, state, first, counted: 0, endless: ENDLESS_FROM, _namespace: namespace }
    }

    /// The source of this number.
    #[must_use]
    pub fn source(number: u32) -> Ipv4Addr {
        scatter::spread(number).into()
    }

    /// A number that looks drawn at random; the same for the same `number`.
    #[must_use]
    pub fn draw(number: u64) -> u64 {
        scatter::scattered(number)
    }

    /// Has the packets of the next runs go to this program, which must take frames of several buffers.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn lead_to(&mut self, program: &Xdp) {
        self.next.set(0, program.fd().unwrap(), 0).expect("the kernel refuses to call this program");
    }

    /// Runs the program on this many packets, on the calling thread.
    ///
    /// # Panics
    ///
    /// Where the kernel refuses to run it.
    pub fn run(&mut self, sources: Sources, order: Order, packets: u32) {
        let (count, number) = match sources {
            Sources::Count(count) => (count, &mut self.counted),
            Sources::Endless => (0, &mut self.endless),
        };
        let random_order = u64::from(order == Order::Random);
        let state = [*number, u64::from(count), u64::from(self.first), random_order];
        self.state.set(0, state, 0).expect("cannot write to a map");
        *number += u64::from(packets);
        let program: &Xdp = self.ebpf.program("walk").unwrap().try_into().unwrap();
        let mut options = TestRunOptions::new();
        options.data_in = Some(&self.frame);
        options.repeat = packets;
        program.test_run(options).expect("cannot run the walker");
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
