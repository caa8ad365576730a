//! What the rules do with a session's packets now, and after each temporary rule that decides about them ends.

use ratelimit_common::{identity::class::Classes, rules::rule::NEVER};
use ratelimit_dataplane::{Error, sys::host, tables::open::Tables};

use super::{session::Session, standing::Standing};

/// The most ends of rules that are followed one by one. One IPv6 address has at most 129 prefixes and one ban, for all
/// packets and for one service. So this is reached only if rules are written again and again during the reading.
const MOST: usize = 512;

/// Standings, each with the moment from which on it applies.
#[derive(Debug, Clone)]
pub(super) struct Timeline(Vec<(u64, Standing)>);

impl Timeline {
    /// Every packet passes at any time.
    pub(super) fn unlimited() -> Self {
        Self(vec![(0, Standing::unlimited())])
    }

    /// Reads what happens to packets of these classes.
    pub(super) fn of(session: Session, classes: Classes, tables: &Tables) -> Result<Self, Error> {
        let (mut all, mut moment) = (Vec::new(), host::now());
        loop {
            let (standing, ends) = session.standing_at(tables, classes, moment)?;
            all.push((moment, standing));
            if ends == NEVER || moment == NEVER - 1 {
                return Ok(Self(all));
            }
            moment = if all.len() < MOST { ends } else { NEVER - 1 };
        }
    }

    /// Returns the standing at a moment. Before the first one, it is the first.
    pub(super) fn at(&self, moment: u64) -> &Standing {
        let place = self.0.partition_point(|(from, _)| *from <= moment);
        &self.0[place.saturating_sub(1)].1
    }

    /// Returns the first moment at which this is worse than `before`, by `is_worse` of both standings, and whether that
    /// is now.
    pub(super) fn first_worse(
        &self,
        before: &Self,
        is_worse: impl Fn(&Standing, &Standing) -> bool,
    ) -> Option<(u64, bool)> {
        let now = self.0.first().map_or(0, |(from, _)| *from);
        let mut moments: Vec<u64> = self.0.iter().chain(&before.0).map(|(from, _)| (*from).max(now)).collect();
        moments.sort_unstable();
        let found = moments.into_iter().find(|moment| is_worse(self.at(*moment), before.at(*moment)))?;
        Some((found, found == now))
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::policy::Policy;

    use super::*;

    fn timeline(parts: &[(u64, Policy)]) -> Timeline {
        let part = |(from, policy): &(u64, Policy)| (*from, Standing { spec: (*policy).into(), is_lasting: true });
        Timeline(parts.iter().map(part).collect())
    }

    #[test]
    fn a_deny_between_two_ends_is_found() {
        let is_worse = |after: &Standing, before: &Standing| after.is_denied() && !before.is_denied();
        let before = timeline(&[(10, Policy::ALLOWED), (60, Policy::UNLIMITED)]);
        // The allow ends before the new deny does.
        let after = timeline(&[(11, Policy::ALLOWED), (60, Policy::DENIED), (90, Policy::UNLIMITED)]);
        assert_eq!(after.first_worse(&before, is_worse), Some((60, false)));
        let denied = timeline(&[(12, Policy::DENIED), (50, Policy::UNLIMITED)]);
        assert_eq!(denied.first_worse(&before, is_worse), Some((12, true)));
        assert_eq!(denied.first_worse(&denied, is_worse), None);
        // What ends sooner than before is no loss.
        assert_eq!(timeline(&[(12, Policy::DENIED), (40, Policy::UNLIMITED)]).first_worse(&denied, is_worse), None);
        assert_eq!(before.first_worse(&Timeline::unlimited(), is_worse), None);
    }
}
