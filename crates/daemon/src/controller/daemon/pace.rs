//! When to do what reports require again and again.

use std::time::Duration;

use tokio::time::Instant;

/// How long to wait after a report. More reports follow at once, such as the new name, or the route of a new address.
pub(super) const SETTLE: Duration = Duration::from_millis(200);

/// The longest wait. While reports come again and again, each wait is twice as long as the one before.
const LONGEST: Duration = Duration::from_secs(5);

/// When to do what reports require again and again.
pub(super) struct Pace {
    due: Option<Instant>,
    /// The last time.
    last: Option<Instant>,
    /// The last wait.
    wait: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { due: None, last: None, wait: SETTLE }
    }
}

impl Pace {
    /// Plans the next time, unless one is planned.
    pub(super) fn plan(&mut self, now: Instant) {
        if self.due.is_none() {
            let is_busy = self.last.is_some_and(|last| now.duration_since(last) <= self.wait);
            self.wait = if is_busy { (self.wait * 2).min(LONGEST) } else { SETTLE };
            self.due = Some(now + self.wait);
        }
    }

    /// Returns whether the time has come.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            (self.due, self.last) = (None, Some(now));
        }
        is_due
    }

    /// Returns when it is due, if it is planned.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Plans it after so long, unless it is planned.
    pub(super) fn again(&mut self, wait: Duration) {
        self.due.get_or_insert_with(|| Instant::now() + wait);
    }

    /// Has the next wait be a short one, since the last time was of use.
    pub(super) fn was_of_use(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_become_longer_until_one_was_of_use() {
        let begin = Instant::now();
        let (mut pace, mut now, mut waits) = (Pace::default(), begin, Vec::new());
        for _ in 0..8 {
            pace.plan(now);
            pace.plan(now + SETTLE / 2);
            let due = pace.due.unwrap();
            assert!(!pace.is_due(due - Duration::from_millis(1)) && pace.is_due(due) && !pace.is_due(due));
            waits.push((due - now).as_millis());
            now = due + Duration::from_millis(1);
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        pace.plan(now + LONGEST);
        assert_eq!(pace.due, Some(now + LONGEST + SETTLE));
        assert!(pace.is_due(now + LONGEST + SETTLE));
        pace.plan(now + LONGEST + SETTLE);
        assert_eq!(pace.due, Some(now + LONGEST + SETTLE * 3));
        // What is of use is done soon again.
        assert!(pace.is_due(now + LONGEST * 2));
        pace.was_of_use();
        pace.plan(now + LONGEST * 2);
        assert_eq!(pace.due, Some(now + LONGEST * 2 + SETTLE));
    }
}
