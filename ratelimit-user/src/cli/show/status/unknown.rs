//! The limit of unknown sources, and where its rate comes from.

use std::fmt;

use anyhow::Result;
use ratelimit_base::text::units::PacketRate;
use ratelimit_common::{
    cells::learned_rate::{DAY, FACTOR, LEAST, LearnedRate, in_force, target},
    limits::limit::{Rate, SECOND},
    maps::{control::Control, cpu::Cpu},
    reason::Reason,
};
use ratelimit_dataplane::{
    readings::{cells, gauges},
    tables::open::Tables,
};
use serde::Serialize;

use super::proofs::Proofs;

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
    /// The rate after the first day, or the one to which the learned rate rises.
    target_per_second: u64,
    /// Minutes for which the rate is still higher than the learned one.
    settling_minutes: u64,
    /// The learned rate.
    #[serde(skip)]
    per_second: u64,
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
            settling_minutes: if learned.is_raised() { learned.settling } else { 0 },
            per_second: in_force(learned.per_minute, 0) / 60,
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in total", per_second(self.per_second))?;
        let Some(learned) = &self.learned else { return Ok(()) };
        let most = per_second(learned.most_per_second);
        if learned.learning {
            return write!(f, ", learning: {} of {DAY} calm minutes, the most {most}", learned.calm_minutes);
        }
        match learned.settling_minutes {
            0 => write!(f, ", learned: ")?,
            minutes => {
                let minutes = counted(minutes, "more minute");
                write!(
                    f,
                    " for {minutes}, so that sources become known again, then {}: ",
                    per_second(learned.per_second)
                )?;
            }
        }
        let days = counted(learned.days, "calm day");
        if learned.most_per_second * FACTOR < LEAST / 60 {
            return write!(f, "the least rate, because the most of {days} is {most}");
        }
        write!(f, "{FACTOR} × {most}, the most of {days}")?;
        if learned.per_second < learned.target_per_second {
            write!(f, "; rises to {}, at most twofold in a day", per_second(learned.target_per_second))?;
        }
        Ok(())
    }
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
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
        assert_eq!(learned(4 * most, 1_440, most), "4936/s in total, learned: 4 × 1234/s, the most of 1 calm day");
        assert_eq!(learned(4 * most, 1_441, most), "4936/s in total, learned: 4 × 1234/s, the most of 2 calm days");
        let rising =
            "2000/s in total, learned: 4 × 1234/s, the most of 8 calm days; rises to 4936/s, at most twofold in a day";
        assert_eq!(learned(60 * 2_000, 99_999, most), rising);
        let least = "1000/s in total, learned: the least rate, because the most of 2 calm days is 1/s";
        assert_eq!(learned(LEAST, 2_880, 3), least);
        // The rate that a fraction more teaches is four times what is shown.
        let rounded = "4004/s in total, learned: 4 × 1001/s, the most of 2 calm days";
        assert_eq!(learned(target(60_001), 2_880, 60_001), rounded);
        let mut settling = LearnedRate { per_minute: 4 * most, calm: 2_880, settling: 9, ..LearnedRate::default() };
        settling.most[0] = most;
        let raised = "100k/s in total for 9 more minutes, so that sources become known again, then 4936/s: 4 × 1234/s, the most of 2 calm days";
        assert_eq!(text(Some(settling)), raised);
        settling.calm = 9;
        assert_eq!(text(Some(settling)), "100k/s in total, learning: 9 of 1440 calm minutes, the most 1234/s");
    }
}
