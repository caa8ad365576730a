//! Which CPU of the victim takes what arrives.

use std::{num::NonZero, thread};

use ratelimit_tests::{Sandbox, VICTIM_LINK, set_queues};

/// Has the victim's first CPU take everything from the driver, as with a network card that has one interrupt. On one CPU there
/// is nothing to choose.
pub(crate) fn lay(sandbox: &Sandbox) {
    if thread::available_parallelism().map_or(1, NonZero::get) > 1 {
        sandbox.victim(|| set_queues(VICTIM_LINK, "rx-", "rps_cpus", "1"));
    }
}
