//! Which CPU receives packets.

use std::fs;

use anyhow::{Context as _, Result, ensure};

/// How often each CPU has received packets, since the machine runs.
pub(crate) struct Receptions(Vec<u64>);

impl Receptions {
    /// Reads it.
    pub(crate) fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/softirqs")?;
        let counts = text.lines().find_map(|line| line.trim_start().strip_prefix("NET_RX:"));
        let counts = counts.context("the kernel does not count receptions")?.split_whitespace();
        Ok(Self(counts.map(str::parse).collect::<Result<_, _>>()?))
    }

    /// Checks that since then, this CPU has received more than twice as often as all others together.
    ///
    /// # Errors
    ///
    /// Fails if another one has.
    pub(crate) fn check_since_then(&self, cpu: usize) -> Result<()> {
        let now = Self::now()?.0;
        let here = now[cpu] - self.0[cpu];
        let elsewhere = now.iter().sum::<u64>() - self.0.iter().sum::<u64>() - here;
        ensure!(here > 2 * elsewhere, "CPU {cpu} has received {here} times, and others {elsewhere} times");
        Ok(())
    }
}
