//! Nanoseconds per packet over an empty drop program, by BPF_PROG_TEST_RUN.

use anyhow::{Context as _, Result};
use aya::{TestRun as _, TestRunOptions, programs::Xdp};
use ratelimit_common::{
    limit::{Limit, Rate, SECOND},
    policy::Policy,
};
use ratelimit_tests::{Bytecode, Empty, Frame};

/// Packets of one sample, and samples of each case, all cases in turn.
const PACKETS: u32 = 1_000_000;
const ROUNDS: usize = 15;

/// A program that runs on one source over and over.
struct Case {
    name: &'static str,
    bytecode: Bytecode,
    samples: Vec<f64>,
}

impl Case {
    fn new(name: &'static str, policy: &Policy) -> Self {
        let mut bytecode = Bytecode::with_kernel_clock();
        bytecode.set_default(policy);
        Self { name, bytecode, samples: Vec::new() }
    }
}

/// Measures and prints.
pub(crate) fn run() -> Result<()> {
    super::pin()?;
    let limit = |packets: Option<u64>, bytes: Option<u64>, burst| {
        let rate = |amount| Rate { amount, period: SECOND };
        Limit { packets: packets.map(rate), bytes: bytes.map(rate), burst: Some(burst) }.policy()
    };
    let frame = Frame::udp([192, 0, 2, 1], 9).bytes();
    let mut cases = [
        Case { bytecode: Bytecode::load(), ..Case::new("no limit, without reading a clock", &Policy::UNLIMITED) },
        Case::new("no limit", &Policy::UNLIMITED),
        Case::new("allowed", &Policy::ALLOWED),
        Case::new("denied", &Policy::DENIED),
        Case::new("within a limit of packets", &limit(Some(100_000_000), None, 1_000_000)?),
        Case::new("within limits of packets and bytes", &limit(Some(100_000_000), Some(50_000_000_000), 1_000_000)?),
        Case::new("over a limit of packets", &limit(Some(1), None, 1)?),
        Case::new("over a limit of bytes", &limit(None, Some(1), 1)?),
    ];
    let empty = Empty::load();
    let mut floor = Vec::new();
    for _ in 0..ROUNDS {
        floor.push(sample(empty.program(), &frame)?);
        for case in &mut cases {
            case.samples.push(sample(case.bytecode.program(), &frame)?);
        }
    }
    let floor = super::median(floor);
    println!(
        "one source, ns per packet over an empty drop program ({floor:.1} ns); medians of {ROUNDS} × {PACKETS} packets"
    );
    for Case { name, samples, .. } in cases {
        println!("  {name:<36} {:>6.1}", super::median(samples) - floor);
    }
    Ok(())
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
