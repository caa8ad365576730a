//! One token bucket in two stages: a cell that many sources may share, and the source's own bucket.
//!
//! The cell admits what fits the front part of the burst by its *level*, which counts all that the sources in it have been admitted. What does
//! not fit, the own bucket is asked for, which has the rest of the burst. A packet in between is paid from both: first from what room the
//! cell has left. What the own bucket admits counts in the level too.
//!
//! For a source alone in its cell, this is exactly the token bucket of [`crate::meters::gcra`]. In a shared cell the level is only higher: its
//! own bucket is asked sooner, so that it keeps its rate and at least the rest of its burst, and is never admitted more.

use crate::{
    limits::policy::Meter,
    meters::{
        gcra::{Answer, MAX_DEBT, SLACK, Units},
        state,
    },
};

/// What a cell's level owes at `now`. Cells begin at zero and may be silent for years, so a level further ahead than `most`, the largest
/// debt that any limit in use can make, is an old one that time has gone around.
#[inline(always)]
#[must_use]
pub const fn level_debt(level: u64, now: Units, most: Units) -> Units {
    let ahead = level.wrapping_sub(now);
    if ahead <= most { ahead } else { 0 }
}

/// Whether a level owes more than another. Not to be told by the levels themselves: one that has been silent for half a turn of time seems to be ahead.
#[inline(always)]
#[must_use]
pub const fn is_higher(level: u64, than: u64, now: Units, most: Units) -> bool {
    level_debt(level, now, most) > level_debt(than, now, most)
}

/// The largest debt that a cell can show where this limit is in use: two bursts, beyond which no level is charged, and what CPUs read the
/// clock apart.
#[must_use]
pub const fn largest_debt(meter: &Meter) -> Units {
    top(meter) + SLACK
}

/// Where a level stops: at two bursts, which is more than one source can owe.
#[inline(always)]
const fn top(meter: &Meter) -> Units {
    if meter.ceiling < MAX_DEBT / 2 { meter.ceiling * 2 } else { MAX_DEBT }
}

/// What a cell with this debt says to a packet that costs `cost`: its level afterwards, if the packet fits.
#[inline(always)]
#[must_use]
pub const fn ask_cell(debt: Units, now: Units, cost: Units, meter: &Meter) -> Option<u64> {
    if debt + cost <= meter.front { Some(now.wrapping_add(debt + cost)) } else { None }
}

/// The part of a packet's cost that the own bucket pays where the cell's level shows this debt.
#[inline(always)]
#[must_use]
pub const fn share(level_debt: Units, cost: Units, meter: &Meter) -> Units {
    cost.saturating_sub(meter.front.saturating_sub(level_debt))
}

/// Asks the own bucket for its [`share`].
///
/// A packet that costs more than the bucket holds passes when its source owes nothing, and is paid in full, as in [`crate::meters::gcra::ask`]. That it
/// owes nothing shows where the cell owes nothing, or where the cell owes so much that others must be in it.
#[inline(always)]
#[must_use]
pub const fn ask_own(own: u64, level_debt: Units, now: Units, cost: Units, meter: &Meter) -> Answer {
    let (debt, share) = (state::debt(own, now), share(level_debt, cost, meter));
    if share == 0 {
        return Answer::Admit(own);
    }
    let rest = meter.rest();
    let owes_nothing = debt == 0 && (level_debt == 0 || level_debt > meter.front);
    if owes_nothing || debt + share <= rest {
        return Answer::Admit(now.wrapping_add(debt + share));
    }
    if debt > meter.ceiling + SLACK { Answer::Cap(now.wrapping_add(rest)) } else { Answer::Refuse }
}

/// The level after the own bucket has admitted a packet. It is not charged beyond two bursts, so that a cell with many offenders
/// recovers.
#[inline(always)]
#[must_use]
pub const fn charge_cell(debt: Units, now: Units, cost: Units, meter: &Meter) -> u64 {
    let (charged, most) = (debt + cost, top(meter));
    // A neighbour with another limit may owe more, and is not forgiven.
    let most = if debt < most { most } else { debt };
    now.wrapping_add(if charged < most { charged } else { most })
}

/// The state of a new bucket: what the cell shows above its part, for all that is known the debt of this source.
#[inline(always)]
#[must_use]
pub const fn handed(level_debt: Units, now: Units, meter: &Meter) -> u64 {
    let (above, most) = (level_debt.saturating_sub(meter.front), meter.ceiling - meter.front);
    now.wrapping_add(if above < most { above } else { most })
}

/// How long a packet is still refused that both stages have refused: until then at least, and no longer if nothing else is charged.
#[must_use]
pub const fn wait(level_debt: Units, own_debt: Units, cost: Units, meter: &Meter) -> Units {
    let rest = meter.rest();
    let until_room = level_debt.saturating_sub(meter.front);
    // By the own bucket alone, while the cell has no room. Then both drain: the cell gains room while the own bucket forgives, as long as
    // it has something to forgive.
    let by_own = (own_debt + cost).saturating_sub(rest);
    let by_cell = (level_debt + cost).saturating_sub(meter.capacity);
    let fits = if by_own <= until_room {
        by_own
    } else if by_cell >= own_debt {
        by_cell
    } else {
        (own_debt + level_debt + cost).saturating_sub(meter.capacity) / 2
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
    /// Whether a packet is admitted, which is charged then.
    pub fn judge(&mut self, now: Units, cost: Units, meter: &Meter) -> bool {
        let level_debt = level_debt(self.level, now, largest_debt(meter));
        if let Some(level) = ask_cell(level_debt, now, cost, meter) {
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
}

#[cfg(test)]
mod tests;
