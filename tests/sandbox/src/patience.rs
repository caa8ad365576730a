//! How long a test waits for what must happen, on a machine of any speed.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

/// Long enough for a loaded machine. A test that passes never waits this long, so the time of a run does not depend on it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Steps that took 14.5 ms on the idle two-core machine on which the product's times were measured, without optimization.
const STEPS: u32 = 1_000_000;
const WORK: Duration = Duration::from_millis(15);

/// Returns a time that the product promises, made longer by as much as this machine is slower now than that one.
#[must_use]
pub fn scaled(promised: Duration) -> Duration {
    let begin = Instant::now();
    (0..STEPS).for_each(|step| {
        black_box(step);
    });
    promised.mul_f64((begin.elapsed().as_secs_f64() / WORK.as_secs_f64()).max(1.0))
}

/// Waits until something holds, and returns the time that it took.
///
/// # Panics
///
/// If it does not hold within [`PATIENCE`]. The panic names `what`.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
    begin.elapsed()
}
