//! Times in which first SYNs of unknown sources get SYN cookies, as counters show them.

use ratelimit_common::{limits::limit::SECOND, maps::control::FEATURE_PROVE_TCP, reason::Reason};
use ratelimit_dataplane::{Error, readings::gauges, tables::open::Tables};

use super::{
    episode::{Episode, Turn},
    notice::What,
};

/// The SYN cookies of an instance.
#[derive(Debug, Default)]
pub(super) struct Cookies {
    episode: Episode,
    /// What was counted before the episode, and until the last look.
    before: Counts,
    last: Counts,
}

/// What an instance has counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    sent: u64,
    unsent: u64,
    proven: u64,
    /// Packets per second of all unknown sources together.
    per_second: u64,
}

impl Counts {
    /// Reads the counters. None if SYNs get no cookies.
    pub(super) fn read(tables: &Tables) -> Result<Option<Self>, Error> {
        let control = tables.control()?;
        if control.features & FEATURE_PROVE_TCP == 0 {
            return Ok(None);
        }
        let cpus = gauges::of_cpus(tables)?;
        Ok(Some(Self {
            sent: gauges::packets_of(tables, Reason::SynCookie)?,
            unsent: cpus.cookies_unsent,
            proven: cpus.proven_by_cookie,
            per_second: gauges::unknown_rate(tables, &control)?.unwrap_or_default(),
        }))
    }

    /// Returns the SYNs that got a cookie, or would have got one within the budget.
    const fn asked(&self) -> u64 {
        self.sent.saturating_add(self.unsent)
    }
}

impl Cookies {
    /// Returns those of an instance that has counted this before.
    pub(super) const fn from(before: Counts) -> Self {
        Self { episode: Episode::from(before.asked()), before, last: before }
    }

    /// Returns whether no SYN got a cookie lately.
    pub(super) const fn is_idle(&self) -> bool {
        self.episode.is_idle()
    }

    /// Takes what was counted until `now`. Without counters, nothing grows.
    pub(super) fn counted(&mut self, counts: Option<Counts>, now: u64) -> Option<What> {
        let counts = counts.unwrap_or(self.last);
        let turn = self.episode.counted(counts.asked(), now);
        // A new instance counts from zero.
        if counts.asked() < self.last.asked() {
            self.before = Counts::default();
        }
        let before = self.before;
        self.last = counts;
        if self.is_idle() {
            self.before = counts;
        }
        Some(match turn? {
            Turn::Begun => What::CookiesStarted { unknown_per_second: counts.per_second },
            Turn::Ended(nanoseconds) => What::CookiesEnded {
                sent: counts.sent.saturating_sub(before.sent),
                unsent: counts.unsent.saturating_sub(before.unsent),
                proven: counts.proven.saturating_sub(before.proven),
                seconds: nanoseconds / SECOND,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(sent: u64, unsent: u64, proven: u64) -> Counts {
        Counts { sent, unsent, proven, per_second: 9 }
    }

    #[test]
    fn a_flood_of_syns_is_told_once_at_its_begin_and_at_its_end_with_what_it_counted() {
        let mut cookies = Cookies::from(counts(100, 10, 5));
        let mut at = |second, counts| cookies.counted(counts, second * SECOND);
        assert_eq!(at(1, Some(counts(100, 10, 5))), None);
        assert_eq!(at(2, Some(counts(130, 10, 6))), Some(What::CookiesStarted { unknown_per_second: 9 }));
        assert_eq!(at(4, Some(counts(140, 30, 8))), None);
        assert_eq!(at(6, Some(counts(140, 40, 8))), None);
        assert_eq!(at(15, Some(counts(140, 40, 8))), None);
        let ended = What::CookiesEnded { sent: 40, unsent: 30, proven: 3, seconds: 4 };
        assert_eq!(at(16, Some(counts(140, 40, 8))), Some(ended));
        assert_eq!(at(18, Some(counts(141, 40, 9))), Some(What::CookiesStarted { unknown_per_second: 9 }));
        // `--prove off` ends it too.
        assert_eq!(at(20, None), None);
        assert_eq!(at(28, None), Some(What::CookiesEnded { sent: 1, unsent: 0, proven: 1, seconds: 0 }));
    }

    #[test]
    fn a_new_instance_counts_from_zero() {
        let mut cookies = Cookies::from(counts(100, 10, 5));
        assert_eq!(cookies.counted(Some(counts(0, 0, 0)), SECOND), None);
        assert_eq!(
            cookies.counted(Some(counts(3, 0, 0)), 2 * SECOND),
            Some(What::CookiesStarted { unknown_per_second: 9 })
        );
        assert_eq!(
            cookies.counted(Some(counts(3, 0, 1)), 12 * SECOND),
            Some(What::CookiesEnded { sent: 3, unsent: 0, proven: 1, seconds: 0 })
        );
    }
}
