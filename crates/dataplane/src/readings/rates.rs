//! Packets and bytes by verdict, and their rates between two readings.

use std::{
    ops::AddAssign,
    time::{Duration, Instant},
};

use ratelimit_common::{
    maps::interface_counters::Counts,
    reason::{Count, Reason},
};
use serde::{Deserialize, Serialize};

use crate::{Error, tables::open::Tables};

/// Packets and bytes by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdicts {
    /// What passed, also in shadow.
    pub passed: Traffic,
    /// What was dropped.
    pub dropped: Traffic,
    /// What passed in shadow, and would have been dropped.
    pub would_drop: Traffic,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes of whole frames.
    pub bytes: u64,
}

/// Packets and bytes per second between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The time between them.
    pub seconds: f64,
    /// Packets and bytes per second.
    pub per_second: Verdicts,
}

/// All counters at one time.
#[derive(Debug, Clone)]
pub struct Moment {
    at: Instant,
    counts: Counts,
}

impl Moment {
    /// Reads the counters.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn now(tables: &Tables) -> Result<Self, Error> {
        Ok(Self { at: Instant::now(), counts: tables.counters.all()? })
    }

    /// Returns these counters as read now.
    #[must_use]
    pub fn of(counts: Counts) -> Self {
        Self { at: Instant::now(), counts }
    }

    /// Returns the sums over all reasons.
    #[must_use]
    pub fn verdicts(&self) -> Verdicts {
        Verdicts::of(&self.counts)
    }

    /// Returns packets by reason, and whether they have passed in shadow.
    #[must_use]
    pub fn by_reason(&self) -> Vec<(Reason, bool, u64)> {
        let of = |(reason, (done, shadow)): (Reason, (&Count, &Count))| {
            [(reason, false, done.packets), (reason, true, shadow.packets)]
        };
        Reason::ALL.into_iter().zip(self.counts.done.iter().zip(&self.counts.shadow)).flat_map(of).collect()
    }

    /// Returns packets per second by reason since an earlier moment of the same instance.
    #[must_use]
    pub fn by_reason_since(&self, earlier: &Self) -> Vec<(Reason, bool, u64)> {
        let grown = Self { at: self.at, counts: self.counts.minus(&earlier.counts) };
        let time = self.at.duration_since(earlier.at);
        let rate = |(reason, is_shadow, packets)| (reason, is_shadow, per(packets, time));
        grown.by_reason().into_iter().map(rate).collect()
    }

    /// Returns the rates since an earlier moment of the same instance.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Rates {
        let (now, before) = (Verdicts::of(&self.counts), Verdicts::of(&earlier.counts));
        let time = self.at.duration_since(earlier.at);
        Rates { seconds: time.as_secs_f64(), per_second: now.minus(before).per(time) }
    }

    /// Returns whether it can be later than another moment of the same instance: no counter is less.
    #[must_use]
    pub fn continues(&self, earlier: &Self) -> bool {
        let mut pairs = self.by_reason().into_iter().zip(earlier.by_reason());
        pairs.all(|((_, _, now), (_, _, before))| now >= before)
    }

    /// Returns the time since then.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.at.elapsed()
    }

    /// Returns dropped packets per second since an earlier moment by reason, also those in shadow.
    #[must_use]
    pub fn refused_since(&self, earlier: &Self) -> Vec<(Reason, u64)> {
        let time = self.at.duration_since(earlier.at);
        let grown = self.counts.minus(&earlier.counts);
        let refused = |(index, reason): (usize, Reason)| {
            let done = if reason.passes() { 0 } else { grown.done[index].packets };
            (reason, per(done + grown.shadow[index].packets, time))
        };
        Reason::ALL.into_iter().enumerate().map(refused).filter(|(_, rate)| *rate != 0).collect()
    }
}

impl Verdicts {
    /// Returns the sums over all reasons.
    #[must_use]
    pub fn of(counts: &Counts) -> Self {
        let mut all = Self::default();
        for (reason, (done, shadow)) in Reason::ALL.into_iter().zip(counts.done.iter().zip(&counts.shadow)) {
            *(if reason.passes() { &mut all.passed } else { &mut all.dropped }) += done.into();
            all.passed += shadow.into();
            all.would_drop += shadow.into();
        }
        all
    }

    fn minus(self, other: Self) -> Self {
        let minus = |a: Traffic, b: Traffic| Traffic {
            packets: a.packets.saturating_sub(b.packets),
            bytes: a.bytes.saturating_sub(b.bytes),
        };
        Self {
            passed: minus(self.passed, other.passed),
            dropped: minus(self.dropped, other.dropped),
            would_drop: minus(self.would_drop, other.would_drop),
        }
    }

    fn per(self, time: Duration) -> Self {
        let rate = |traffic: Traffic| Traffic { packets: per(traffic.packets, time), bytes: per(traffic.bytes, time) };
        Self { passed: rate(self.passed), dropped: rate(self.dropped), would_drop: rate(self.would_drop) }
    }
}

impl Traffic {
    /// Returns what came since an earlier count. None if that is higher.
    #[must_use]
    pub const fn checked_sub(self, earlier: Self) -> Option<Self> {
        match (self.packets.checked_sub(earlier.packets), self.bytes.checked_sub(earlier.bytes)) {
            (Some(packets), Some(bytes)) => Some(Self { packets, bytes }),
            _ => None,
        }
    }
}

impl From<&Count> for Traffic {
    fn from(count: &Count) -> Self {
        Self { packets: count.packets, bytes: count.bytes }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Returns an amount per second, rounded. No time has no rate.
#[must_use]
pub fn per(amount: u64, time: Duration) -> u64 {
    if time.is_zero() { 0 } else { (amount as f64 / time.as_secs_f64()).round() as u64 }
}
