//! One token bucket in two stages: a cell that many sources may share, and the source's own bucket.
//!
//! The *level* of a cell counts everything that its sources were admitted. The cell admits packets that fit its share
//! of the burst. Other packets go to the source's own bucket, which has the rest of the burst. A packet in between is
//! paid from both, first from the room of the cell. Packets that the own bucket admits count in the level too.
//!
//! For a source alone in its cell, this equals the token bucket of [`crate::meters::gcra`]. In a shared cell the level
//! is higher, so the own bucket is asked sooner. The source keeps its rate and at least the rest of its burst, and is
//! never admitted more.
//!
//! Levels are read as debt up to the largest debt that a limit in use can create.

use crate::meters::{
    gcra::{Answer, MAX_DEBT, SLACK, Units, units},
    meter::Meter,
    state,
};

/// Returns the debt of a cell's level at `now`. Cells begin at zero and may be silent for years. So a level much further
/// ahead than `most`, the largest debt of all limits in use, is an old one, and time has wrapped since.
///
/// Levels up to twice `most` count. CPUs that add to a level at the same time, without an exchange, can add as much as
/// `most` together.
#[inline(always)]
#[must_use]
pub const fn level_debt(level: u64, now: Units, most: Units) -> Units {
    let ahead = level.wrapping_sub(now);
    if ahead >> 1 <= most { ahead } else { 0 }
}

/// Returns whether a level owes more than another. The levels themselves do not tell: one that was silent for half of
/// the range of time seems to be ahead.
#[inline(always)]
#[must_use]
pub const fn is_higher(level: u64, than: u64, now: Units, most: Units) -> bool {
    level_debt(level, now, most) > level_debt(than, now, most)
}

/// Time for which a CPU may stop between reading the clock and changing a level: one second. A hypervisor can stop a
/// virtual CPU for so long.
const LONGEST_STOP: Units = units(1_000_000_000);

/// Returns the largest debt of a cell under this limit: two bursts, beyond which no level is charged, plus the
/// difference between the times that CPUs have read.
#[must_use]
pub const fn largest_debt(meter: &Meter) -> Units {
    if meter.is_on() { top(meter) + LONGEST_STOP } else { 0 }
}

/// Returns a level that is at least what one source can owe, so that nothing must be added to it.
#[inline(always)]
#[must_use]
pub const fn enough(meter: &Meter) -> Units {
    meter.ceiling + meter.cell_share
}

/// Returns the largest charged level: two bursts, which is more than one source can owe.
#[inline(always)]
const fn top(meter: &Meter) -> Units {
    if meter.ceiling < MAX_DEBT / 2 { meter.ceiling * 2 } else { MAX_DEBT }
}

/// Which part of the burst a cell admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The cell's share. The source's own bucket has the rest.
    Share,
    /// The whole burst, for a source that has no bucket and can get none. A new bucket would owe what the level shows above
    /// the share, so it would decide the same.
    Whole,
}

impl Part {
    /// Returns this part of the burst of a limit.
    #[inline(always)]
    #[must_use]
    pub const fn of(self, meter: &Meter) -> Units {
        match self {
            Self::Share => meter.cell_share,
            Self::Whole => meter.burst,
        }
    }
}

/// Returns the level of a cell with this debt after a packet of this cost, if the packet fits this part of the burst.
#[inline(always)]
#[must_use]
pub const fn ask_cell(debt: Units, now: Units, cost: Units, part: Units) -> Option<u64> {
    if debt + cost <= part { Some(now.wrapping_add(debt + cost)) } else { None }
}

/// Returns the part of a packet's cost that the own bucket pays when the cell's level shows this debt.
#[inline(always)]
#[must_use]
pub const fn share(level_debt: Units, cost: Units, meter: &Meter) -> Units {
    cost.saturating_sub(meter.cell_share.saturating_sub(level_debt))
}

/// Asks the own bucket for its [`share`].
///
/// A packet that costs more than the bucket holds passes if its source owes nothing, and is paid in full, as in
/// [`crate::meters::gcra::ask`]. The source owes nothing if the cell owes nothing, or if the cell owes so much that
/// others must be in it.
#[inline(always)]
#[must_use]
pub const fn ask_own(own: u64, level_debt: Units, now: Units, cost: Units, meter: &Meter) -> Answer {
    let (debt, share) = (state::debt(own, now), share(level_debt, cost, meter));
    if share == 0 {
        return Answer::Admit(own);
    }
    let rest = meter.rest();
    let owes_nothing = debt == 0 && (level_debt == 0 || level_debt > meter.cell_share);
    if owes_nothing || debt + share <= rest {
        return Answer::Admit(now.wrapping_add(debt + share));
    }
    if debt > meter.ceiling + SLACK { Answer::Cap(now.wrapping_add(meter.most_of_rest())) } else { Answer::Refuse }
}

/// Returns the level after the own bucket has admitted a packet. It is not charged beyond two bursts, so that a cell
/// with many offenders recovers.
#[inline(always)]
#[must_use]
pub const fn charge_cell(debt: Units, now: Units, cost: Units, meter: &Meter) -> u64 {
    let (charged, most) = (debt + cost, top(meter));
    // A neighbour with another limit may owe more, and keeps its debt.
    let most = if debt < most { most } else { debt };
    now.wrapping_add(if charged < most { charged } else { most })
}

/// Returns the state of a new bucket: the cell's debt above its share, which may be the debt of this source.
#[inline(always)]
#[must_use]
pub const fn handed(level_debt: Units, now: Units, meter: &Meter) -> u64 {
    let (above, most) = (level_debt.saturating_sub(meter.cell_share), meter.ceiling - meter.cell_share);
    now.wrapping_add(if above < most { above } else { most })
}

/// Returns the most that a source can owe in both stages together, given the debts of its cell and of its own bucket. It
/// is exact for a source alone in its cell. A level below the debt of the bucket was lowered, so the bucket counts.
#[must_use]
pub const fn owed(level_debt: Units, own_debt: Units, meter: &Meter) -> Units {
    let (both, shown) = (own_debt + meter.cell_share, if level_debt < own_debt { own_debt } else { level_debt });
    let owed = if both < shown { both } else { shown };
    if owed < meter.ceiling { owed } else { meter.ceiling }
}

/// Returns the time for which a packet that both stages have refused is still refused. It is exact if nothing else is
/// charged.
#[must_use]
pub const fn wait(level_debt: Units, own_debt: Units, cost: Units, meter: &Meter) -> Units {
    let rest = meter.rest();
    let until_room = level_debt.saturating_sub(meter.cell_share);
    // While the cell has no room, only the own bucket counts. Then both drain: the cell gains room while the debt of
    // the own bucket shrinks.
    let by_own = (own_debt + cost).saturating_sub(rest);
    let by_cell = (level_debt + cost).saturating_sub(meter.burst);
    let fits = if by_own <= until_room {
        by_own
    } else if by_cell >= own_debt {
        by_cell
    } else {
        (own_debt + level_debt + cost).saturating_sub(meter.burst) / 2
    };
    if cost <= rest {
        return fits;
    }
    let owes_nothing = if own_debt < until_room || level_debt < own_debt { own_debt } else { level_debt };
    if owes_nothing < fits { owes_nothing } else { fits }
}

/// Both stages as a model: one source's bucket behind one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// Level of the cell.
    pub level: u64,
    /// State of the source's own bucket, if it has one.
    pub own: Option<u64>,
}

impl Stages {
    /// Decides about a packet, and charges it if it is admitted.
    pub fn decide(&mut self, now: Units, cost: Units, meter: &Meter) -> bool {
        let level_debt = level_debt(self.level, now, largest_debt(meter));
        if let Some(level) = ask_cell(level_debt, now, cost, Part::Share.of(meter)) {
            self.level = level;
            return true;
        }
        let own = self.own.unwrap_or_else(|| handed(level_debt, now, meter));
        let answer = ask_own(own, level_debt, now, cost, meter);
        self.own = Some(match answer {
            Answer::Admit(own) | Answer::Cap(own) => own,
            Answer::Refuse => own,
        });
        if matches!(answer, Answer::Admit(_)) {
            self.level = charge_cell(level_debt, now, cost, meter);
            return true;
        }
        false
    }

    /// Decides about a packet of a source that has no bucket and can get none. The cell decides alone.
    pub fn decide_without_bucket(&mut self, now: Units, cost: Units, meter: &Meter) -> bool {
        let level_debt = level_debt(self.level, now, largest_debt(meter));
        let charged = ask_cell(level_debt, now, cost, Part::Whole.of(meter));
        self.level = charged.unwrap_or(self.level);
        charged.is_some()
    }
}

#[cfg(test)]
mod tests;
