//! Whether a server that has failed is left out.

use std::time::Duration;

use ratelimit_base::jitter::part;

/// The first time that a server is left out. It doubles with each failure.
pub(super) const FIRST: Duration = Duration::from_millis(100);
/// The longest time that a server is left out.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// The state of a server: it answers, or it is left out and sometimes probed.
#[derive(Debug, Clone, Default)]
pub(super) struct Outage {
    /// How long it is left out after the next failure, without jitter. None if it has answered since the last one.
    out: Option<Out>,
    /// Which of these states it is. What a question of an earlier state has found out changes nothing.
    state: u64,
}

#[derive(Debug, Clone)]
struct Out {
    until: Duration,
    time: Duration,
    is_probed: bool,
}

/// A question that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::caller) struct Ticket(u64);

impl Outage {
    /// Returns whether the server may be asked: it answers, or it is time for a probe.
    pub(super) fn is_open(&self, now: Duration) -> bool {
        self.out.as_ref().is_none_or(|out| !out.is_probed && now >= out.until)
    }

    /// Begins a question, which is a probe if the server is left out.
    pub(super) fn begin(&mut self) -> Ticket {
        if let Some(out) = &mut self.out {
            out.is_probed = true;
        }
        Ticket(self.state)
    }

    /// The server has answered.
    pub(super) fn succeed(&mut self, ticket: Ticket) {
        if ticket.0 == self.state && self.out.is_some() {
            *self = Self { out: None, state: self.state + 1 };
        }
    }

    /// The server has failed. Of questions that fail together, only the first counts.
    pub(super) fn fail(&mut self, ticket: Ticket, now: Duration, random: u64) {
        if ticket.0 != self.state {
            return;
        }
        let time = self.out.as_ref().map_or(FIRST, |out| (out.time * 2).min(LONGEST));
        // Between a half and the whole, so that callers do not come back together.
        let until = now + time / 2 + part(time / 2, random);
        *self = Self { out: Some(Out { until, time, is_probed: false }), state: self.state + 1 };
    }

    /// The question has ended without a result. Another one may be the probe.
    pub(super) fn abandon(&mut self, ticket: Ticket) {
        if let Some(out) = self.out.as_mut().filter(|_| ticket.0 == self.state) {
            out.is_probed = false;
        }
    }
}
