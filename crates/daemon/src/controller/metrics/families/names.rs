//! Which sources have metrics of their own.
//!
//! Each name makes time series that a monitoring system keeps for long after the source is gone. Whoever sends from ever
//! new addresses must not make ever more of them. So new names have a budget. A source whose name was given within the
//! last hour costs nothing: its series are there. Sources without drops leave half of the budget to those with drops.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// The time in which the budget fills up, and for which names are remembered.
const PERIOD: Duration = Duration::from_hours(1);

/// A source and a service.
pub(super) type Name = (String, String);

/// One that is to have a name.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) name: Name,
    pub(super) has_drops: bool,
}

/// The names that were given.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// When each was last given. About twice as many as are given at a time.
    given: HashMap<Name, Instant>,
    /// How many new names count as given at a time. It falls to 0 within an hour.
    spent: Option<(f64, Instant)>,
}

impl Names {
    /// Returns whether each of these may have a name, the most important first. At most `most` have one, and at most
    /// `most` new ones within an hour, besides the first ones.
    pub(super) fn give(&mut self, wanted: &[Wanted], most: usize, now: Instant) -> Vec<bool> {
        self.given.retain(|_, given| now.saturating_duration_since(*given) < PERIOD);
        let whole = most as f64;
        let mut spent = self.spent.map_or(0.0, |(spent, since)| {
            let passed = now.saturating_duration_since(since).as_secs_f64() / PERIOD.as_secs_f64();
            (spent - whole * passed).max(0.0)
        });
        let mut left = most;
        let may_have = |Wanted { name, has_drops }: &Wanted| {
            let is_known = self.given.contains_key(name);
            let reserved = if *has_drops { 0.0 } else { whole / 2.0 };
            if left == 0 || !is_known && spent + reserved + 1.0 > whole {
                return false;
            }
            left -= 1;
            spent += if is_known { 0.0 } else { 1.0 };
            self.given.insert(name.clone(), now);
            true
        };
        let given = wanted.iter().map(may_have).collect();
        self.spent = Some((spent, now));
        self.forget(2 * most);
        given
    }

    /// Forgets the oldest names beyond so many.
    fn forget(&mut self, most: usize) {
        let mut times: Vec<Instant> = self.given.values().copied().collect();
        let Some(beyond) = times.len().checked_sub(most).filter(|beyond| *beyond > 0) else { return };
        let (_, oldest, _) = times.select_nth_unstable(beyond - 1);
        let oldest = *oldest;
        self.given.retain(|_, given| *given > oldest);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn names(numbers: std::ops::Range<u32>) -> Vec<Wanted> {
        numbers.map(|number| Wanted { name: (number.to_string(), "any".to_owned()), has_drops: true }).collect()
    }

    #[test]
    fn rotating_sources_get_so_many_names_at_first_and_so_many_in_each_hour() {
        for most in [1, 10, 1_000] {
            let (mut given, begin) = (Names::default(), Instant::now());
            let mut all = HashSet::new();
            // Ten hours with a reading each 15 seconds, and other sources each time.
            for reading in 0..2_400u32 {
                let wanted = names(reading * 2_000..reading * 2_000 + most * 2);
                let now = begin + Duration::from_secs(15) * reading;
                let may = given.give(&wanted, most as usize, now);
                let named: Vec<_> = wanted.into_iter().zip(may).filter(|(_, may)| *may).collect();
                assert!(named.len() <= most as usize && given.given.len() <= 2 * most as usize);
                all.extend(named.into_iter().map(|(wanted, _)| wanted.name));
                let hours = reading * 15 / 3_600 + 1;
                assert!(all.len() as u32 <= most * (1 + hours), "{}", all.len());
            }
            assert!(all.len() as u32 >= most * 10, "a new attacker is seen at last: {}", all.len());
        }
    }

    #[test]
    fn sources_that_stay_or_return_keep_their_names() {
        let (mut given, begin) = (Names::default(), Instant::now());
        let minute = |minutes: u64| begin + Duration::from_secs(60 * minutes);
        assert_eq!(given.give(&names(0..4), 2, begin), [true, true, false, false]);
        // The budget is spent.
        assert_eq!(given.give(&names(5..7), 2, minute(1)), [false, false]);
        assert_eq!(given.give(&names(0..2), 2, minute(50)), [true, true]);
        assert_eq!(given.give(&names(1..2), 2, minute(100)), [true]);
        // Another one is worse meanwhile.
        let worse = [names(9..10), names(1..2), names(0..1)].concat();
        assert_eq!(given.give(&worse, 2, minute(105)), [true, true, false]);
        // What was forgotten is new.
        assert_eq!(given.give(&names(0..1), 2, minute(400)), [true]);
    }

    #[test]
    fn sources_without_drops_leave_names_to_others() {
        let (mut given, now) = (Names::default(), Instant::now());
        let calm = |numbers| names(numbers).into_iter().map(|wanted| Wanted { has_drops: false, ..wanted });
        assert_eq!(given.give(&calm(0..9).collect::<Vec<_>>(), 4, now), [[true; 2].as_slice(), &[false; 7]].concat());
        assert_eq!(given.give(&names(20..29), 4, now), [[true; 2].as_slice(), &[false; 7]].concat());
    }
}
