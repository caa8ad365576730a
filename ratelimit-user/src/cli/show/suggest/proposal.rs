//! Proposes a limit from the busiest seconds of all sources.

use ratelimit_common::identity::service::Service;

/// How much more than the percentile the proposed limit admits.
const FACTOR: u64 = 2;

/// The least packets per second to propose for all packets of a source: one web page needs so many.
const LEAST: u64 = 100;

/// The same for one service: a browser opens several connections at once.
const LEAST_OF_SERVICE: u64 = 10;

/// Returns the value that `percent` of the values do not exceed, by the nearest rank. The values are in order.
pub(super) fn percentile(sorted: &[u64], percent: f64) -> u64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).or(sorted.last()).copied().unwrap_or(0)
}

/// A proposed limit in packets per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) per_second: u64,
    /// Whether it is the least, because the observed traffic needs less.
    pub(super) is_least: bool,
}

impl Proposal {
    /// Proposes twice the percentile of the busiest seconds, rounded up.
    pub(super) fn of(service: Service, sorted: &[u64], percent: f64) -> Self {
        let observed = rounded_up(percentile(sorted, percent).saturating_mul(FACTOR).max(1));
        let least = if service == Service::Any { LEAST } else { LEAST_OF_SERVICE };
        Self { per_second: observed.max(least), is_least: observed < least }
    }
}

/// Returns the next 1, 2 or 5 with zeros.
fn rounded_up(number: u64) -> u64 {
    let unit = 10u64.pow(number.checked_ilog10().unwrap_or(0));
    let steps = [1, 2, 5, 10].map(|step| unit.saturating_mul(step));
    steps.into_iter().find(|step| *step >= number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_by_the_nearest_rank() {
        let ten: Vec<u64> = (1..=10).collect();
        for (percent, value) in [(0.0, 1), (50.0, 5), (90.0, 9), (90.1, 10), (99.9, 10), (100.0, 10)] {
            assert_eq!(percentile(&ten, percent), value, "{percent}");
        }
        assert_eq!((percentile(&[7], 90.0), percentile(&[], 90.0)), (7, 0));
    }

    #[test]
    fn one_flood_among_ten_sources_does_not_raise_the_proposal() {
        let mut peaks = vec![40; 9];
        peaks.push(1_000_000);
        let proposed = |percent| Proposal::of(Service::Any, &peaks, percent);
        assert_eq!(proposed(90.0), Proposal { per_second: 100, is_least: false });
        assert_eq!(proposed(100.0), Proposal { per_second: 2_000_000, is_least: false });
    }

    #[test]
    fn nearly_silent_sources_still_get_what_a_web_page_or_a_browser_needs() {
        let least = |per_second| Proposal { per_second, is_least: true };
        assert_eq!(Proposal::of(Service::Any, &[1, 1, 2], 90.0), least(100));
        assert_eq!(Proposal::of(Service::TcpSyn, &[1, 1, 2], 90.0), least(10));
        assert_eq!(Proposal::of(Service::TcpSyn, &[6], 90.0), Proposal { per_second: 20, is_least: false });
    }

    #[test]
    fn numbers_are_rounded_up() {
        for (number, rounded) in
            [(1, 1), (2, 2), (3, 5), (6, 10), (10, 10), (11, 20), (201, 500), (999, 1_000), (u64::MAX, u64::MAX)]
        {
            assert_eq!(rounded_up(number), rounded, "{number}");
        }
    }
}
