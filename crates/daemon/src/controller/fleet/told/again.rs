//! When to try again what has failed.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest and the longest time between two tries of the same.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// What has failed last. Each failure of the same doubles the time to the next try.
#[derive(Debug, Default)]
pub(super) struct Again<T>(Option<Failed<T>>);

#[derive(Debug)]
struct Failed<T> {
    what: T,
    pause: Duration,
    next: Instant,
}

impl<T: PartialEq> Again<T> {
    /// Returns what must not be tried yet. Anything else may be.
    pub(super) fn resting(&self, now: Instant) -> Option<&T> {
        self.0.as_ref().filter(|failed| now < failed.next).map(|failed| &failed.what)
    }

    /// Notes that a try of `tried` has failed. A try can change what it depends on, so `what` is to be tried next.
    pub(super) fn fail(&mut self, tried: &T, what: T, now: Instant) {
        let [shortest, longest] = PAUSES;
        let before = self.0.take().filter(|failed| failed.what == *tried);
        let pause = before.map_or(shortest, |failed| (failed.pause * 2).min(longest));
        self.0 = Some(Failed { what, pause, next: now + pause });
    }

    /// Notes a success.
    pub(super) fn succeed(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_rests_longer_after_each_failure_and_anything_else_not_at_all() {
        let (mut again, mut now) = (Again::default(), Instant::now());
        assert_eq!(again.resting(now), None);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            again.fail(&"one", "one", now);
            let begin = now;
            while again.resting(now) == Some(&"one") {
                now += Duration::from_secs(1);
            }
            pauses.push((now - begin).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        again.fail(&"other", "other", now);
        assert_ne!(again.resting(now), Some(&"one"));
        assert_eq!(again.resting(now + Duration::from_secs(1)), None);
        again.fail(&"one", "one", now);
        again.succeed();
        assert_eq!(again.resting(now), None);
    }

    #[test]
    fn what_a_failed_try_itself_has_changed_rests_longer_too() {
        let (mut again, now) = (Again::default(), Instant::now());
        for (generation, pause) in (0..).zip([1, 2, 4, 8]) {
            again.fail(&generation, generation + 1, now);
            let end = now + Duration::from_secs(pause);
            assert_eq!(again.resting(end - Duration::from_millis(1)), Some(&(generation + 1)));
            assert_eq!(again.resting(end), None);
        }
        // Somebody else has changed it.
        again.fail(&9, 10, now);
        assert_eq!(again.resting(now + Duration::from_secs(1)), None);
    }
}
