//! What happens to the server of the demo, and what the hosts then admit.

use std::ops::RangeInclusive;

/// What happens to the server at the start of a phase.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Engine {
    /// There is none.
    None,
    /// It starts.
    Starts,
    /// It is stopped, and keeps its connections.
    Stops,
    /// It goes on.
    GoesOn,
}

/// A part of the demo.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) title: &'static str,
    pub(crate) engine: Engine,
    pub(crate) seconds: usize,
    /// Mean of the last seconds, as a part of the limit.
    pub(crate) promised: RangeInclusive<f64>,
}

/// Seconds at the end of a phase by which it is judged.
pub(crate) const JUDGED: usize = 3;

/// All parts, in their order.
pub(crate) const PHASES: [Phase; 4] = [
    Phase { title: "No server: each host admits its own limit", engine: Engine::None, seconds: 6, promised: 2.8..=3.1 },
    Phase {
        title: "The server starts: the hosts share one limit",
        engine: Engine::Starts,
        seconds: 14,
        promised: 0.9..=1.1,
    },
    Phase {
        title: "The server is stopped: each host admits its own limit again",
        engine: Engine::Stops,
        seconds: 8,
        promised: 2.8..=3.1,
    },
    Phase {
        title: "The server goes on: the hosts share one limit again",
        engine: Engine::GoesOn,
        seconds: 12,
        promised: 0.9..=1.1,
    },
];
