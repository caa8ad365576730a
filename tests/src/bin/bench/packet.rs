//! Nanoseconds per packet over an empty drop program, by BPF_PROG_TEST_RUN.

use std::cmp::Reverse;

use anyhow::{Context as _, Result};
use aya::{TestRun as _, TestRunOptions, programs::Xdp};
use ratelimit::dataplane::{
    object::Settings,
    terms::{ParentLimit, Scope, Terms},
};
use ratelimit_common::{
    limit::{Limit, Rate, SECOND},
    policy::Policy,
    source::IPV4,
};
use ratelimit_tests::{Bytecode, Empty, Frame};

/// The port that packets go to.
const PORT: u16 = 9;

/// Packets of one sample, and samples of each case, all cases in turn.
const PACKETS: u32 = 1_000_000;
const ROUNDS: usize = 15;

/// A program that runs on one packet over and over.
struct Case {
    name: &'static str,
    bytecode: Bytecode,
    frame: Vec<u8>,
    samples: Vec<f64>,
}

impl Case {
    fn new(name: &'static str, policy: &Policy) -> Self {
        let mut bytecode = Bytecode::with_kernel_clock();
        bytecode.set_default(policy);
        Self { name, bytecode, frame: Frame::udp([192, 0, 2, 1], PORT).bytes(), samples: Vec::new() }
    }

    /// A program that looks at more, for these rules.
    fn with(name: &'static str, settings: Settings, rules: &[(&str, Terms)]) -> Self {
        let mut case = Self::new(name, &Policy::UNLIMITED);
        case.bytecode = Bytecode::with_kernel_clock_and(settings);
        for (target, terms) in rules {
            case.bytecode.set(target, terms.clone());
        }
        case
    }
}

/// Measures and prints.
pub(crate) fn run() -> Result<()> {
    super::pin()?;
    let limit = |packets: Option<u64>, bytes: Option<u64>, burst| {
        let rate = |amount| Rate { amount, period: SECOND };
        Limit { packets: packets.map(rate), bytes: bytes.map(rate), burst: Some(burst) }.policy()
    };
    let wide = limit(Some(100_000_000), None, 1_000_000)?;
    let services = Settings { services: true, ..Settings::default() };
    let parents = Settings { parents: true, ..Settings::default() };
    let under = |scopes: &[Scope]| Terms {
        policy: wide,
        parents: scopes.iter().map(|scope| ParentLimit { scope: *scope, policy: wide }).collect(),
    };
    let v6 = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1];
    let prefix = Scope::Prefix(IPV4, Reverse(24));
    let mut cases = [
        Case { bytecode: Bytecode::load(), ..Case::new("no limit, without reading a clock", &Policy::UNLIMITED) },
        Case::new("no limit", &Policy::UNLIMITED),
        Case::new("allowed", &Policy::ALLOWED),
        Case::new("denied", &Policy::DENIED),
        Case::new("within a limit of packets", &limit(Some(100_000_000), None, 1_000_000)?),
        Case::new("within limits of packets and bytes", &limit(Some(100_000_000), Some(50_000_000_000), 1_000_000)?),
        Case::new("over a limit of packets", &limit(Some(1), None, 1)?),
        Case::new("over a limit of bytes", &limit(None, Some(1), 1)?),
        Case { frame: Frame::udp(v6, PORT).bytes(), ..Case::new("IPv6, no limit", &Policy::UNLIMITED) },
        Case {
            frame: behind_options(v6),
            ..Case::new("IPv6 behind an extension header, no limit", &Policy::UNLIMITED)
        },
        Case::with("services: within its own limit", services, &[("default udp/9", wide.into())]),
        Case::with("services: of no service with a rule", services, &[("default tcp", wide.into())]),
        Case::with("services: no rule for this source", services, &[("10.0.0.0/8 udp/9", wide.into())]),
        Case::with("parents: none for this policy", parents, &[("default", wide.into())]),
        Case::with("parents: /24", parents, &[("default", under(&[prefix]))]),
        Case::with("parents: /24 and all", parents, &[("default", under(&[prefix, Scope::All]))]),
    ];
    let empty = Empty::load();
    let mut floor = Vec::new();
    for _ in 0..ROUNDS {
        floor.push(sample(empty.program(), &cases[0].frame)?);
        for case in &mut cases {
            case.samples.push(sample(case.bytecode.program(), &case.frame)?);
        }
    }
    let floor = super::median(floor);
    println!(
        "one source, ns per packet over an empty drop program ({floor:.1} ns); medians of {ROUNDS} × {PACKETS} packets"
    );
    for Case { name, samples, .. } in cases {
        println!("  {name:<44} {:>6.1}", super::median(samples) - floor);
    }
    Ok(())
}

/// UDP over IPv6 behind eight bytes of destination options.
fn behind_options(source: [u16; 8]) -> Vec<u8> {
    let mut frame = Frame::udp(source, PORT).length(80).bytes();
    let (next, length) = (20, 18);
    frame.splice(54..54, [frame[next], 0, 1, 4, 0, 0, 0, 0]);
    frame[next] = 60;
    let payload = (frame.len() - 54) as u16;
    frame[length..length + 2].copy_from_slice(&payload.to_be_bytes());
    frame
}

/// Nanoseconds of this thread's time for each packet.
fn sample(program: &Xdp, frame: &[u8]) -> Result<f64> {
    let mut options = TestRunOptions::new();
    options.data_in = Some(frame);
    options.repeat = PACKETS;
    let begin = thread_time();
    program.test_run(options).context("cannot run the program")?;
    Ok((thread_time() - begin) / f64::from(PACKETS))
}

fn thread_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
