//! What the program counts about itself, and how long a bucket stays that nobody asks.

use std::time::Duration;

use aya::util::online_cpus;
use ratelimit_common::maps::{control::Control, cpu::Cpu};

use crate::dataplane::{Error, error::Tried as _, sys::host, tables::open::Tables};

/// What the CPUs have counted together. Of their budgets, which each has for itself, nothing is told.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn of_cpus(tables: &Tables) -> Result<Cpu, Error> {
    let cpus = tables.cpus.get(&0, 0).tried("cannot read what the CPUs have counted")?;
    Ok(cpus.iter().fold(Cpu::default(), |sum, cpu| Cpu {
        unknown_passed: sum.unknown_passed + cpu.unknown_passed,
        admitted: sum.admitted + cpu.admitted,
        failed: sum.failed + cpu.failed,
        bans_failed: sum.bans_failed + cpu.bans_failed,
        lost_races: sum.lost_races + cpu.lost_races,
        displaced: sum.displaced + cpu.displaced,
        replies_sent: sum.replies_sent + cpu.replies_sent,
        replies_unsent: sum.replies_unsent + cpu.replies_unsent,
        ..sum
    }))
}

/// CPUs that may run the program.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel does not say.
pub fn cpus() -> Result<usize, Error> {
    let unknown =
        |(file, error)| Error::Bpf { what: "cannot read which CPUs are there", detail: format!("{file}: {error}") };
    Ok(online_cpus().map_err(unknown)?.len())
}

/// How long a bucket stays that is not asked, as long as every CPU makes as many new ones as it may. An estimate: the kernel recycles
/// the longest silent ones only roughly in that order. Nothing where no budget is given.
#[must_use]
pub fn idle_at_full_budget(control: &Control, capacity: u32, cpus: usize) -> Option<Duration> {
    let per_second = u128::from(control.admission.per_second) * cpus as u128;
    stay(capacity, 1_000_000_000, per_second)
}

/// The same at the rate at which buckets were made since the instance was.
#[must_use]
pub fn idle_so_far(control: &Control, capacity: u32, made: u64) -> Option<Duration> {
    stay(capacity, host::now().saturating_sub(control.created), u128::from(made))
}

/// Time in which `capacity` buckets are made, where `made` are in so many nanoseconds.
fn stay(capacity: u32, nanoseconds: u64, made: u128) -> Option<Duration> {
    let nanoseconds = (u128::from(capacity) * u128::from(nanoseconds)).checked_div(made)?;
    Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
}
