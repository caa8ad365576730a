//! What became of clients that a rule with `stop-at-nic` has refused, for metrics.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// What became of a refused client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The daemon limits it from now on.
    Stopped,
    /// The daemon would limit it, and is in shadow.
    WouldStop,
    /// The daemon limits it, or would, since an earlier request.
    Already,
    /// The daemon refuses.
    Refused,
    /// The daemon does not answer, or not as expected.
    Unanswered,
    /// Too many requests to the daemon wait.
    Dropped,
    /// It was refused too seldom so far, or its address is known for too short a time. The daemon is not asked.
    Early,
    /// Others share its address. The daemon is not asked.
    Shared,
    /// Its connection is that of a proxy. The daemon is not asked.
    Proxied,
    /// The caller has named no connection. The daemon is not asked.
    NoConnection,
    /// The caller may not name connections. The daemon is not asked.
    NotAllowed,
}

/// All outcomes with their names.
const ALL: [(Outcome, &str); 11] = [
    (Outcome::Stopped, "stopped"),
    (Outcome::WouldStop, "would_stop"),
    (Outcome::Already, "already"),
    (Outcome::Refused, "refused"),
    (Outcome::Unanswered, "unanswered"),
    (Outcome::Dropped, "dropped"),
    (Outcome::Early, "early"),
    (Outcome::Shared, "shared"),
    (Outcome::Proxied, "proxied"),
    (Outcome::NoConnection, "no_connection"),
    (Outcome::NotAllowed, "not_allowed"),
];

/// Counts since the start.
#[derive(Debug, Default)]
pub(super) struct Counts {
    outcomes: [AtomicU64; ALL.len()],
    is_up: AtomicBool,
}

impl Counts {
    pub(super) fn count(&self, outcome: Outcome) {
        for (counter, _) in self.outcomes.iter().zip(ALL).filter(|(_, (this, _))| *this == outcome) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes whether the daemon answers.
    pub(super) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Relaxed);
    }

    /// Adds all to a page for Prometheus.
    pub(super) fn write(&self, page: &mut String) {
        *page +=
            "# HELP ratelimit_check_stops_total Refused requests of clients that should be stopped, by what became.\n";
        *page += "# TYPE ratelimit_check_stops_total counter\n";
        for (counter, (_, name)) in self.outcomes.iter().zip(ALL) {
            let count = counter.load(Ordering::Relaxed);
            let _ = writeln!(page, "ratelimit_check_stops_total{{outcome=\"{name}\"}} {count}");
        }
        *page += "# HELP ratelimit_check_stops_up Whether the daemon that stops clients can be reached, and has answered the last request.\n";
        *page += "# TYPE ratelimit_check_stops_up gauge\n";
        let _ = writeln!(page, "ratelimit_check_stops_up {}", u8::from(self.is_up.load(Ordering::Relaxed)));
    }
}
