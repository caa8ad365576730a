//! The limit of unknown sources, and where its rate comes from.

use std::fmt;

use anyhow::Result;
use ratelimit_common::{
    cells::learned_rate::{DAY, FACTOR, LEAST, LearnedRate, target},
    limits::limit::{Rate, SECOND},
    maps::{control::Control, cpu::Cpu},
    reason::Reason,
};
use serde::Serialize;

use super::proofs::Proofs;
use crate::{
    dataplane::{
        readings::{cells, gauges},
        tables::open::Tables,
    },
    text::units::PacketRate,
};

#[derive(Debug, Serialize)]
pub(super) struct Unknown {
    pub(super) per_second: u64,
    /// Absent if the operator has set the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    learned: Option<Learned>,
    pub(super) known: usize,
    pub(super) passed: u64,
    pub(super) refused: u64,
    pub(super) proofs: Proofs,
}

/// What the program has learned.
#[derive(Debug, Serialize)]
struct Learned {
    /// Whether the first day lasts, so that the rate is not learned yet.
    learning: bool,
    calm_minutes: u64,
    days: u64,
    /// The most packets per second of a calm minute.
    most_per_second: u64,
    /// The rate to which the present one rises.
    target_per_second: u64,
}

impl Unknown {
    /// Returns None if unknown sources are not limited.
    pub(super) fn read(
        tables: &Tables,
        control: &Control,
        cpus: &Cpu,
        packets: impl Fn(Reason) -> u64,
    ) -> Result<Option<Self>> {
        let Some(per_second) = gauges::unknown_rate(tables, control)? else { return Ok(None) };
        Ok(Some(Self {
            per_second,
            learned: gauges::learned_rate(tables, control)?.as_ref().map(Learned::of),
            known: cells::known(tables)?,
            passed: cpus.unknown_passed,
            refused: packets(Reason::OverUnknown),
            proofs: Proofs::of(control, cpus, packets(Reason::SynCookie)),
        }))
    }
}

impl Learned {
    fn of(learned: &LearnedRate) -> Self {
        Self {
            learning: learned.is_learning(),
            calm_minutes: learned.calm,
            days: learned.days(),
            most_per_second: learned.most().div_ceil(60),
            target_per_second: target(learned.most()) / 60,
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in total", per_second(self.per_second))?;
        let Some(Learned { learning, calm_minutes, days, most_per_second, target_per_second }) = &self.learned else {
            return Ok(());
        };
        let most = per_second(*most_per_second);
        if *learning {
            return write!(f, ", learning: {calm_minutes} of {DAY} calm minutes, the most {most}");
        }
        let days = if *days == 1 { "1 day".to_owned() } else { format!("{days} days") };
        write!(f, ", learned: {FACTOR} × {most}, the most of {days}")?;
        if most_per_second * FACTOR < LEAST / 60 {
            write!(f, ", is less than the least rate")?;
        } else if self.per_second < *target_per_second {
            write!(f, "; rises to {}, at most twofold in a day", per_second(*target_per_second))?;
        }
        Ok(())
    }
}

fn per_second(amount: u64) -> PacketRate {
    PacketRate(Rate { amount, period: SECOND })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(learned: Option<LearnedRate>) -> String {
        let per_second = learned.map_or(20_000, |learned| learned.in_force() / 60);
        let learned = learned.as_ref().map(Learned::of);
        Unknown { per_second, learned, known: 0, passed: 0, refused: 0, proofs: Proofs::default() }.to_string()
    }

    #[test]
    fn the_rate_is_shown_with_its_origin() {
        let learned = |per_minute, calm, most| {
            let most = [most, 0, 0, 0, 0, 0, 0, 0];
            text(Some(LearnedRate { per_minute, calm, most, ..LearnedRate::default() }))
        };
        assert_eq!(text(None), "20k/s in total");
        assert_eq!(learned(0, 0, 0), "100k/s in total, learning: 0 of 1440 calm minutes, the most 0/s");
        let most = 60 * 1_234;
        assert_eq!(learned(0, 7, most), "100k/s in total, learning: 7 of 1440 calm minutes, the most 1234/s");
        assert_eq!(learned(4 * most, 1_440, most), "4936/s in total, learned: 4 × 1234/s, the most of 1 day");
        assert_eq!(learned(4 * most, 1_441, most), "4936/s in total, learned: 4 × 1234/s, the most of 2 days");
        let rising =
            "2000/s in total, learned: 4 × 1234/s, the most of 8 days; rises to 4936/s, at most twofold in a day";
        assert_eq!(learned(60 * 2_000, 99_999, most), rising);
        let least = "1000/s in total, learned: 4 × 1/s, the most of 2 days, is less than the least rate";
        assert_eq!(learned(LEAST, 2_880, 3), least);
    }
}
