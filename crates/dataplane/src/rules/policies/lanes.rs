//! The lanes of policies: which levels each limit charges. See [`ratelimit_common::maps::levels`].

use std::{collections::BTreeSet, sync::atomic::Ordering};

use aya::maps::IterableMap as _;
use ratelimit_common::{
    cells::cell::Cell,
    limits::policy::Policy,
    maps::levels::{LANE_LEVELS, LANES, Levels},
    meters::gcra::{self, Units},
};

use crate::{
    Error,
    rules::policies::levels::{Scale, of_lanes},
    sys::{mmap_array::Mapped, rcu},
    tables::open::Tables,
};

/// Pairs of lanes, of which the second takes the place of the first.
pub type LanePairs = BTreeSet<(u32, u32)>;

/// Bytes of a usual large packet. Limits of bytes are compared by its cost.
const LARGE_PACKET: u32 = 1_500;

/// The first lane that limits of similar speed share. Each lane before it has one limit.
const FIRST_SHARED: u32 = 21;
/// Binary digits of the ratio between the slowest and the fastest limit that may share a lane.
const BAND_BITS: u32 = 4;
/// Binary digits of the smallest cost: that of a packet at a hundred million per second.
const LEAST_BITS: u32 = 3 + gcra::FRACTION_BITS;

/// The lanes that limits use.
#[derive(Default)]
pub struct Lanes {
    used: BTreeSet<u32>,
    fresh: BTreeSet<u32>,
}

impl Lanes {
    /// Records that a policy uses its lane.
    pub fn take(&mut self, policy: &Policy) {
        self.used.insert(policy.lane());
    }

    /// Returns a lane that no limit uses. If there is none, the one that limits of this speed share. Also returns
    /// whether it is the first limit of the lane, whose levels must then be cleared.
    pub fn choose(&mut self, policy: &Policy) -> (u32, bool) {
        let free = (1..FIRST_SHARED).find(|lane| !self.used.contains(lane));
        let lane = free.unwrap_or_else(|| FIRST_SHARED + band(cost(policy)));
        let is_first = self.used.insert(lane);
        if is_first {
            self.fresh.insert(lane);
        }
        (lane, is_first)
    }

    /// Returns the number of lanes for one limit each that no limit uses.
    pub fn free(&self) -> usize {
        (1..FIRST_SHARED).filter(|lane| !self.used.contains(lane)).count()
    }

    /// Returns the lanes that no limit used before.
    pub fn fresh(&self) -> &BTreeSet<u32> {
        &self.fresh
    }
}

/// Returns the number of the shared lane for limits with this cost.
fn band(cost: Units) -> u32 {
    (cost.max(1).ilog2().saturating_sub(LEAST_BITS) / BAND_BITS).min(LANES - 1 - FIRST_SHARED)
}

/// Returns the time that one packet of the slower limit costs.
fn cost(policy: &Policy) -> Units {
    let second = policy.second.cost_of(policy.second_amount(LARGE_PACKET, 1));
    let windows = policy.windows.iter().filter(|window| window.is_on());
    let windows = windows.map(|window| gcra::units(window.length / window.limit.max(1))).max();
    policy.packets.cost_of(1).max(second).max(windows.unwrap_or(0))
}

/// Clears the levels of a lane, whose debt is that of limits long gone.
pub fn clear(tables: &Tables, lane: u32) -> Result<(), Error> {
    let now = Scale::of(&tables.control()?).now;
    let all = Mapped::<Levels>::to_write(tables.levels.open()?.map())?;
    for word in (0..LANE_LEVELS).filter_map(|hash| of_lanes(&all, index(lane, hash))).flatten() {
        word.store(now, Ordering::Release);
    }
    Ok(())
}

/// Raises the levels of lanes to those of others, where a limit takes the place of another. So a changed limit forgets no
/// debt.
pub fn raise(tables: &Tables, pairs: &LanePairs) -> Result<(), Error> {
    if pairs.is_empty() {
        return Ok(());
    }
    let all = Mapped::<Levels>::to_write(tables.levels.open()?.map())?;
    let cells = Mapped::<Cell>::of(tables.front.open()?.map())?;
    let scale = Scale::of(&tables.control()?);
    for (old, new) in pairs {
        for hash in 0..LANE_LEVELS {
            let levels = match old {
                0 => in_cells(&cells, hash, scale),
                _ => all.get(index(*old, hash)).unwrap_or_default(),
            };
            let words = of_lanes(&all, index(*new, hash)).into_iter().flatten();
            words.zip([levels.packets, levels.second]).for_each(|(word, level)| scale.raise(word, level));
        }
    }
    Ok(())
}

/// Does so again when no packet charges the old lanes any more. Sources charge them until they see a new generation.
pub fn raise_again(tables: &Tables, pairs: &LanePairs) -> Result<(), Error> {
    if !pairs.is_empty() {
        rcu::wait();
    }
    raise(tables, pairs)
}

/// Returns where the entry of a lane for this hash is in the map.
fn index(lane: u32, hash: u32) -> usize {
    ratelimit_common::maps::levels::index(lane, u64::from(hash)) as usize
}

/// Returns the highest levels of all cells that share an entry of a lane.
fn in_cells(cells: &Mapped<Cell>, hash: u32, scale: Scale) -> Levels {
    let mut highest = Levels::default();
    for cell in (hash as usize..cells.len()).step_by(LANE_LEVELS as usize).filter_map(|index| cells.get(index)) {
        if scale.is_higher(cell.packets, highest.packets) {
            highest.packets = cell.packets;
        }
        if scale.is_higher(cell.second, highest.second) {
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
    fn each_of_the_first_limits_has_its_own_lane() {
        let mut lanes = Lanes::default();
        lanes.take(&policy(1_000, 1));
        let chosen: BTreeSet<u32> =
            (1..FIRST_SHARED).map(|rate| lanes.choose(&policy(u64::from(rate), 60)).0).collect();
        assert_eq!(chosen, (1..FIRST_SHARED).collect());
        assert_eq!(lanes.fresh(), &chosen);
        assert_eq!(lanes.free(), 0);
    }

    #[test]
    fn further_limits_share_a_lane_only_with_limits_of_similar_speed() {
        let mut lanes = Lanes::default();
        while lanes.free() > 0 {
            lanes.choose(&policy(1, 3_600));
        }
        let rates = [(100_000_000, 1), (1_000_000, 1), (1_000, 1), (10, 1), (1, 1), (10, 60), (1, 3_600), (1, 86_400)];
        let further: Vec<_> = rates.map(|(amount, seconds)| policy(amount, seconds)).into();
        for one in &further {
            for other in &further {
                let share = lanes.choose(one).0 == lanes.choose(other).0;
                let ratio = cost(one).max(cost(other)) / cost(one).min(cost(other));
                assert!(!share || ratio < 1 << BAND_BITS, "a ratio of {ratio}");
            }
            assert!((FIRST_SHARED..LANES).contains(&lanes.choose(one).0));
        }
        assert_eq!(lanes.choose(&policy(10_000, 1)).0, lanes.choose(&policy(10_001, 1)).0);
    }
}
