//! Sends ahead of all other work of a CPU, like the interrupts of a network card.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use aya::programs::{Xdp, XdpMode};

use super::inject::inject;
use crate::Namespace;

/// Time between two bursts. Each costs some 30 µs, whatever its number of packets.
const PERIOD: Duration = Duration::from_millis(1);

/// Sends a burst of packets in each period until stopped. A period that ends before its burst is left out.
pub(super) fn send(program: &Xdp, frame: &[u8], context: &[u8], per_second: u64, stop: &AtomicBool) {
    outrank_others();
    let packets = (per_second as f64 * PERIOD.as_secs_f64()).round() as u32;
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if packets > 0 {
            inject(program, frame, context, packets);
        }
        let now = Instant::now();
        next = (next + PERIOD).max(now);
        thread::sleep(next - now);
    }
}

/// Attaches the program to the loopback of a namespace, which it returns. So the kernel's dispatcher keeps it between bursts.
/// Otherwise each burst would wait until all CPUs know it.
pub(super) fn keep_ready(program: &mut Xdp) -> Namespace {
    let (namespace, _) = Namespace::pair();
    namespace.run(|| program.attach("lo", XdpMode::Skb)).expect("cannot attach to the loopback interface");
    namespace
}

/// Gives this thread the lowest priority above those of all usual threads.
fn outrank_others() {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel only reads the parameter.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
    assert_eq!(outcome, 0, "cannot raise the priority: {}", io::Error::last_os_error());
}
