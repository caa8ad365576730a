//! What counts of single sources tell, where only samples are counted.

use std::time::Duration;

use ratelimit_common::{
    cells::refused_sample::{self, Refused},
    limits::policy::{LIMIT, Policy},
    maps::{
        control::{Control, FEATURE_FRONT, FEATURE_PARENTS, SAMPLE_RATE},
        cpu::Cpu,
    },
};

use super::rates::per;
use crate::{Error, error::Tried as _, sys::host, tables::open::Tables};

/// The most samples that a rate is not ranked by.
const FEW: u64 = 2;

/// Packets of one sample: of those that passed, and of those that were refused.
pub const SAMPLES: [u64; 2] = [SAMPLE_RATE, refused_sample::RATE];

/// Tells which counts of passed packets are estimates.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    has_cells: bool,
    /// Whether numbers of passed packets of sources are estimates: there is or was a limit behind cells. Counts in buckets
    /// outlast the rule that they come from, and a source without one has passed uncounted.
    pub are_totals_estimates: bool,
    /// Whether numbers of refused packets of sources are estimates: a parent refuses sources that have no bucket, and
    /// such packets are not counted.
    pub are_refusals_estimates: bool,
}

impl Sampling {
    /// Returns what the entry of the control map tells.
    #[must_use]
    pub const fn of(control: &Control) -> Self {
        let has_cells = control.features & FEATURE_FRONT != 0;
        // The largest debt is 0 until the first limit, and never again.
        Self {
            has_cells,
            are_totals_estimates: has_cells && control.largest_debt != 0,
            are_refusals_estimates: has_cells && control.features & FEATURE_PARENTS != 0,
        }
    }

    /// Returns whether cells decide about most packets of sources with a policy now, so that only samples are counted.
    #[must_use]
    pub const fn is_on(&self, policy: &Policy) -> bool {
        self.has_cells && policy.kind == LIMIT && (policy.packets.is_on() || policy.second.is_on())
    }
}

/// Returns whether a CPU has counted refused packets by samples within the last [period](refused_sample::PERIOD).
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn is_flood(tables: &Tables) -> Result<bool, Error> {
    let cpus = tables.cpus.open()?.get(&0, 0).tried("cannot read what the CPUs have counted")?;
    let refused = |cpu: &Cpu| Refused { skipped: cpu.refused_skipped, counted: cpu.refused_counted };
    Ok(cpus.iter().any(|cpu| refused(cpu).is_flood_at(host::now())))
}

/// A rate that one or two samples made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Few {
    /// Packets per second that were counted one by one.
    pub sure: u64,
    /// Packets per second below which the rate is, in 19 of 20 cases.
    pub below: u64,
}

impl Few {
    /// Returns what this number of packets within a time tells. None if its samples are many, or if it has none.
    #[must_use]
    pub fn of(packets: u64, sample: u64, time: Duration) -> Option<Self> {
        let samples = packets / sample;
        let most = packets + 2 * (packets * sample).isqrt() + 3 * sample;
        (1..=FEW).contains(&samples).then(|| Self { sure: per(packets % sample, time), below: per(most, time) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_two_samples_are_few() {
        let of = |packets| Few::of(packets, SAMPLE_RATE, Duration::from_secs(1));
        assert_eq!([0, 255, 768, 1 << 40].map(of), [None; 4]);
        assert_eq!(of(256), Some(Few { sure: 0, below: 1_536 }));
        assert_eq!(of(767).map(|few| few.sure), Some(255));
        assert_eq!(Few::of(128, 64, Duration::from_millis(100)), Some(Few { sure: 0, below: 5_000 }));
    }
}
