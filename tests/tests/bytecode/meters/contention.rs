//! Two CPUs that send ten million packets of one source on the kernel's clock: not one packet too many (G1).

use std::{sync::Barrier, thread};

use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::Policy,
};
use ratelimit_dataplane::sys::host;
use ratelimit_tests::{Bytecode, Frame, has_two_cpus, stay_on_cpu, tokens};

use super::{ADDRESS, settings};
use crate::front::{Front, with_and_without_cells};

/// Packets of each CPU between two meetings.
const AT_ONCE: u32 = 100_000;

/// Sends packets of one source from two CPUs. Returns how many passed, whatever their reason, how long it took, and how
/// many exchanges were lost.
fn race(policy: Policy, packets: u32, front: Front) -> (u64, u64, u64) {
    let mut bytecode = Bytecode::with_kernel_clock_and(settings(front));
    bytecode.set("default", policy);
    let (frame, start) = (Frame::udp(ADDRESS, 9).bytes(), Barrier::new(2));
    let begin = host::now();
    thread::scope(|scope| {
        for cpu in 0..2 {
            let (bytecode, frame, start) = (&bytecode, &frame, &start);
            scope.spawn(move || {
                stay_on_cpu(cpu);
                for _ in 0..packets / (2 * AT_ONCE) {
                    start.wait();
                    bytecode.repeat(frame, AT_ONCE);
                }
            });
        }
    });
    let time = host::now() - begin;
    let counts = bytecode.counts();
    assert_eq!(counts.iter().map(|(_, count)| count.packets).sum::<u64>(), u64::from(packets));
    let passed = counts.iter().filter(|(reason, _)| reason.passes()).map(|(_, count)| count.packets).sum();
    let lost: u64 = bytecode.cpus().iter().map(|cpu| cpu.lost_races).sum();
    println!("{passed} passed in {time} ns; {lost} exchanges were lost");
    (passed, time, lost)
}

fn two_cpus_pass_no_packet_too_many(front: Front) {
    const MILLION: u32 = 1_000_000;
    // The CPUs meet most often at a rate that is close to what they send.
    for (amount, burst, packets) in
        [(1_000, 1_000, 2 * MILLION), (1_000_000, 10, 2 * MILLION), (5_000_000, 100, 10 * MILLION)]
    {
        let rate = Rate { amount, period: SECOND };
        let limit = Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() };
        let (passed, time, lost) = race(limit.policy().unwrap(), packets, front);
        let most = tokens::bound(rate, burst, time);
        assert!(passed <= most, "{amount}/s: {passed} of at most {most}");
        assert!(passed > burst, "{amount}/s: only {passed}");
        assert!(packets < 10 * MILLION || lost > 0 || !has_two_cpus(), "{amount}/s: the CPUs did not meet");
    }
}

with_and_without_cells!(two_cpus_pass_no_packet_too_many);
