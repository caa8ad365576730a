//! Times in which a counter grows, with short pauses.

use ratelimit_common::maps::event::QUIET;

/// A counter, and whether it grows.
#[derive(Debug, Default)]
pub(super) struct Episode {
    count: u64,
    /// When the counter was first and last seen to grow.
    grown: Option<[u64; 2]>,
}

/// A change of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The counter has begun to grow.
    Begun,
    /// It has not grown for a while. It grew for so many nanoseconds before.
    Ended(u64),
}

impl Episode {
    /// Returns one whose counter does not grow.
    pub(super) const fn from(count: u64) -> Self {
        Self { count, grown: None }
    }

    /// Returns whether the counter was not seen to grow lately.
    pub(super) const fn is_idle(&self) -> bool {
        self.grown.is_none()
    }

    /// Takes the counter at `now`. One that begins again at zero does not grow.
    pub(super) fn counted(&mut self, count: u64, now: u64) -> Option<Turn> {
        let before = std::mem::replace(&mut self.count, count);
        if count > before {
            let begin = self.grown.map(|[begin, _]| begin);
            self.grown = Some([begin.unwrap_or(now), now]);
            return begin.is_none().then_some(Turn::Begun);
        }
        let [begin, last] = self.grown.take_if(|[_, last]| now.saturating_sub(*last) >= QUIET)?;
        Some(Turn::Ended(last - begin))
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::limit::SECOND;

    use super::*;

    #[test]
    fn an_episode_ends_when_its_counter_stands_still_for_ten_seconds() {
        let mut episode = Episode::from(5);
        let mut counted = |count, second| episode.counted(count, second * SECOND);
        assert_eq!(counted(5, 1), None);
        assert_eq!(counted(6, 3), Some(Turn::Begun));
        assert_eq!(counted(9, 5), None);
        assert_eq!(counted(9, 14), None);
        assert_eq!(counted(10, 15), None);
        assert_eq!(counted(10, 24), None);
        assert_eq!(counted(10, 25), Some(Turn::Ended(12 * SECOND)));
        assert_eq!(counted(10, 60), None);
        // Another instance counts from zero.
        assert_eq!(counted(2, 61), None);
        assert_eq!(counted(3, 62), Some(Turn::Begun));
    }
}
