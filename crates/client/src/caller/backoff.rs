//! When to repeat a request that a server has refused.

use std::time::Duration;

use ratelimit_base::jitter::part;

/// Exponential back-off with full jitter.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    base: Duration,
    cap: Duration,
    /// The jitter of the next time is at most this.
    most: Duration,
}

impl Backoff {
    /// Begins with jitter of at most `base`, which doubles with each refusal, up to `cap`.
    pub(super) fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, most: base.min(cap) }
    }

    /// Returns how long to wait: what the server says, and the jitter that the random number chooses.
    pub(super) fn next(&mut self, retry_after: Duration, random: u64) -> Duration {
        let jitter = part(self.most, random);
        self.most = self.most.saturating_mul(2).max(self.base).min(self.cap);
        retry_after.saturating_add(jitter)
    }
}

/// A request that is repeated until a time limit.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    backoff: Backoff,
    limit: Duration,
    /// The time that a question needs. Without an answer in time, the request would be allowed.
    question: Duration,
}

impl Waiting {
    pub(super) fn new(backoff: Backoff, limit: Duration, question: Duration) -> Self {
        Self { backoff, limit, question }
    }

    /// Returns how long to wait after a refusal before the next question, if its answer can arrive before the time limit.
    ///
    /// `elapsed` is the time since the first question. `retry_after` is none if the request costs more than the limit.
    pub(super) fn next(&mut self, elapsed: Duration, retry_after: Option<Duration>, random: u64) -> Option<Duration> {
        let retry_after = retry_after?;
        let most = self.limit.checked_sub(elapsed)?.checked_sub(self.question)?;
        (retry_after <= most).then(|| self.backoff.next(retry_after, random).min(most))
    }
}
