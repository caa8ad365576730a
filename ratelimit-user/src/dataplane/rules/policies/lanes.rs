//! The lanes of policies: which levels each limit charges. See [`ratelimit_common::maps::levels`].

use std::{collections::BTreeSet, sync::atomic::Ordering};

use aya::maps::IterableMap as _;
use ratelimit_common::{
    cells::cell::Cell,
    limits::policy::Policy,
    maps::levels::{LANE_LEVELS, LANES, Levels},
    meters::{
        gcra::{self, Units},
        stages,
    },
};

use crate::dataplane::{
    Error,
    rules::policies::levels::{now, words},
    sys::mmap_array::Mapped,
    tables::open::Tables,
};

/// Bytes of a usual large packet. Limits of bytes are compared by its cost.
const LARGE_PACKET: u32 = 1_500;

/// The lanes with the time that one packet of their fastest limit costs.
#[derive(Default)]
pub(crate) struct Lanes {
    costs: [Option<Units>; LANES as usize],
    fresh: BTreeSet<u32>,
}

impl Lanes {
    /// Records that a policy uses its lane.
    pub(crate) fn take(&mut self, policy: &Policy) {
        if let Some(place) = self.costs.get_mut(policy.lane() as usize) {
            *place = Some(place.map_or(cost(policy), |fastest| fastest.min(cost(policy))));
        }
    }

    /// Returns a lane that no limit uses. If there is none, the one whose limits are most similar in speed.
    pub(crate) fn choose(&mut self, policy: &Policy) -> u32 {
        let distance =
            |of: &Option<Units>| of.map_or(0, |of| 1 + of.max(1).ilog2().abs_diff(cost(policy).max(1).ilog2()));
        let others = (0..LANES).zip(&self.costs).skip(1);
        let lane = others.min_by_key(|(_, cost)| distance(cost)).map_or(1, |(lane, _)| lane);
        if self.costs[lane as usize].is_none() {
            self.fresh.insert(lane);
        }
        self.take(&policy.in_lane(lane));
        lane
    }

    /// Returns the number of lanes that no limit uses.
    pub(crate) fn free(&self) -> usize {
        self.costs.iter().skip(1).filter(|cost| cost.is_none()).count()
    }

    /// Returns the lanes that no limit used before.
    pub(crate) fn fresh(&self) -> &BTreeSet<u32> {
        &self.fresh
    }

    /// Returns the lanes that no limit used before.
    pub(crate) fn into_fresh(self) -> BTreeSet<u32> {
        self.fresh
    }
}

/// Returns the time that one packet of the slower limit costs.
fn cost(policy: &Policy) -> Units {
    let second = policy.second.cost_of(policy.second_amount(LARGE_PACKET, 1));
    let windows = policy.windows.iter().filter(|window| window.is_on());
    let windows = windows.map(|window| gcra::units(window.length / window.limit.max(1))).max();
    policy.packets.cost_of(1).max(second).max(windows.unwrap_or(0))
}

/// Clears the levels of a lane, whose debt is that of limits long gone.
pub(crate) fn clear(tables: &Tables, lane: u32) -> Result<(), Error> {
    let now = now(&tables.control()?);
    let all = Mapped::<Levels>::to_write(tables.levels.open()?.map())?;
    for word in (0..LANE_LEVELS).filter_map(|hash| words(&all, index(lane, hash))).flatten() {
        word.store(now, Ordering::Release);
    }
    Ok(())
}

/// Raises the levels of lanes to those of others, where a limit takes the place of another: pairs of an old lane and a
/// new one. So a changed limit forgets no debt.
pub(crate) fn raise(tables: &Tables, pairs: &BTreeSet<(u32, u32)>) -> Result<(), Error> {
    if pairs.is_empty() {
        return Ok(());
    }
    let all = Mapped::<Levels>::to_write(tables.levels.open()?.map())?;
    let cells = Mapped::<Cell>::of(tables.front.open()?.map())?;
    let control = tables.control()?;
    let (now, most) = (now(&control), control.largest_debt);
    for (old, new) in pairs {
        for hash in 0..LANE_LEVELS {
            let debts = match old {
                0 => in_cells(&cells, hash, |level| stages::level_debt(level, now, most)),
                _ => all.get(index(*old, hash)).unwrap_or_default(),
            };
            for (word, level) in words(&all, index(*new, hash)).into_iter().flatten().zip([debts.packets, debts.second])
            {
                // Whether it was higher already does not matter.
                let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| {
                    stages::is_higher(level, seen, now, most).then_some(level)
                });
            }
        }
    }
    Ok(())
}

/// Returns where the entry of a lane for this hash is in the map.
fn index(lane: u32, hash: u32) -> usize {
    ratelimit_common::maps::levels::index(lane, u64::from(hash)) as usize
}

/// Returns the highest levels of all cells that share an entry of a lane.
fn in_cells(cells: &Mapped<Cell>, hash: u32, debt: impl Fn(u64) -> Units) -> Levels {
    let mut highest = Levels::default();
    for cell in (hash as usize..cells.len()).step_by(LANE_LEVELS as usize).filter_map(|index| cells.get(index)) {
        if debt(cell.packets) > debt(highest.packets) {
            highest.packets = cell.packets;
        }
        if debt(cell.second) > debt(highest.second) {
            highest.second = cell.second;
        }
    }
    highest
}

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::limit::{Limit, Rate, SECOND};

    use super::*;

    fn policy(amount: u64, seconds: u64) -> Policy {
        let packets = Some(Rate { amount, period: seconds * SECOND });
        Limit { packets, ..Limit::default() }.policy().unwrap()
    }

    #[test]
    fn each_limit_has_its_own_lane_as_long_as_there_are_lanes() {
        let mut lanes = Lanes::default();
        lanes.take(&policy(1_000, 1));
        let mut chosen = BTreeSet::new();
        for rate in 1..LANES {
            chosen.insert(lanes.choose(&policy(u64::from(rate), 60)));
        }
        assert_eq!(chosen, (1..LANES).collect());
        assert_eq!(lanes.fresh(), &chosen);
        assert_eq!(lanes.free(), 0);
    }

    #[test]
    fn further_limits_share_the_lane_of_a_similar_speed() {
        let mut lanes = Lanes::default();
        let slow: Vec<u32> = (1..LANES - 1).map(|_| lanes.choose(&policy(1, 3_600))).collect();
        let fast = lanes.choose(&policy(10_000, 1));
        assert_eq!(lanes.choose(&policy(9_000, 1)), fast);
        assert!(slow.contains(&lanes.choose(&policy(1, 3_000))));
    }
}
