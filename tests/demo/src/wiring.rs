//! Assignment of received packets to a CPU of the victim.

use std::{num::NonZero, thread};

use ratelimit_sandbox::{Sandbox, VICTIM_LINK, set_queues};

/// Makes the victim's first CPU process all received packets, like a network card with one interrupt. With one CPU
/// there is nothing to assign.
pub(crate) fn lay(sandbox: &Sandbox) {
    if thread::available_parallelism().map_or(1, NonZero::get) > 1 {
        sandbox.victim(|| set_queues(VICTIM_LINK, "rx-", "rps_cpus", "1"));
    }
}
