//! Counters of the program about itself, and how long an idle bucket stays.

use std::time::Duration;

use aya::{maps::IterableMap, util::online_cpus};
use ratelimit_common::{
    cells::learned_rate::LearnedRate,
    maps::{
        control::{Control, FEATURE_UNKNOWN, FEATURE_UNKNOWN_LEARNED},
        cpu::Cpu,
    },
    reason::Reason,
};

use crate::{Error, error::Tried as _, sys::host, tables::open::Tables};

/// Returns the sum of the CPUs' counters. It leaves out their budgets.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn of_cpus(tables: &Tables) -> Result<Cpu, Error> {
    let cpus = tables.cpus.open()?.get(&0, 0).tried("cannot read what the CPUs have counted")?;
    Ok(cpus.iter().fold(Cpu::default(), |sum, cpu| Cpu {
        unknown_passed: sum.unknown_passed + cpu.unknown_passed,
        own_looked_up: sum.own_looked_up + cpu.own_looked_up,
        own_not_looked_up: sum.own_not_looked_up + cpu.own_not_looked_up,
        proofs_looked_up: sum.proofs_looked_up + cpu.proofs_looked_up,
        proofs_not_looked_up: sum.proofs_not_looked_up + cpu.proofs_not_looked_up,
        proven_by_connection: sum.proven_by_connection + cpu.proven_by_connection,
        proven_by_cookie: sum.proven_by_cookie + cpu.proven_by_cookie,
        cookies_unsent: sum.cookies_unsent + cpu.cookies_unsent,
        admitted: sum.admitted + cpu.admitted,
        failed: sum.failed + cpu.failed,
        bans_failed: sum.bans_failed + cpu.bans_failed,
        lost_races: sum.lost_races + cpu.lost_races,
        displaced_refusals: sum.displaced_refusals + cpu.displaced_refusals,
        replies_sent: sum.replies_sent + cpu.replies_sent,
        replies_unsent: sum.replies_unsent + cpu.replies_unsent,
        ..sum
    }))
}

/// Returns the packets of one reason, of all CPUs and interfaces together.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn packets_of(tables: &Tables, requested: Reason) -> Result<u64, Error> {
    let counts = tables.counts()?;
    Ok(counts.iter().find(|(reason, _)| *reason == requested).map_or(0, |(_, count)| count.packets))
}

/// Returns what the program has learned about the rate of unknown sources. None if it does not learn it.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn learned_rate(tables: &Tables, control: &Control) -> Result<Option<LearnedRate>, Error> {
    if control.features & FEATURE_UNKNOWN_LEARNED == 0 {
        return Ok(None);
    }
    tables.learned_rate.open()?.get(&0, 0).map(Some).tried("cannot read the learned rate")
}

/// Replaces what the program has learned about that rate.
pub fn set_learned(tables: &mut Tables, learned: LearnedRate) -> Result<(), Error> {
    tables.learned_rate.open_mut()?.set(0, learned, 0).tried("cannot write the learned rate")
}

/// Returns the packets per second in force of all unknown sources together. None if they are not limited.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn unknown_rate(tables: &Tables, control: &Control) -> Result<Option<u64>, Error> {
    let learned = learned_rate(tables, control)?.map(|learned| learned.in_force() / 60);
    let is_limited = control.features & FEATURE_UNKNOWN != 0;
    Ok(is_limited.then(|| learned.unwrap_or(control.unknown.per_second)))
}

/// Returns the number of CPUs that may run the program.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel does not say.
pub fn cpus() -> Result<usize, Error> {
    let unknown =
        |(file, error)| Error::Bpf { what: "cannot read which CPUs are there", detail: format!("{file}: {error}") };
    Ok(online_cpus().map_err(unknown)?.len())
}

/// Returns the most sources that can be tracked at a time.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn max_sources(tables: &Tables) -> Result<u32, Error> {
    let buckets = IterableMap::map(tables.buckets.open()?);
    Ok(buckets.info().tried("cannot read the size of the buckets")?.max_entries())
}

/// Estimates how long an idle bucket stays if every CPU spends its whole admission budget. The kernel recycles idle
/// buckets only roughly in the order of idleness. None without a budget.
#[must_use]
pub fn idle_at_full_budget(control: &Control, max_sources: u32, cpus: usize) -> Option<Duration> {
    let per_second = u128::from(control.admission.per_second) * cpus as u128;
    stay(max_sources, 1_000_000_000, per_second)
}

/// Estimates how long an idle bucket stays at the average rate since the instance was created.
#[must_use]
pub fn idle_so_far(control: &Control, max_sources: u32, made: u64) -> Option<Duration> {
    stay(max_sources, host::now().saturating_sub(control.created), u128::from(made))
}

/// Returns the time in which `max_sources` buckets are created, at `made` in so many nanoseconds.
fn stay(max_sources: u32, nanoseconds: u64, made: u128) -> Option<Duration> {
    let nanoseconds = (u128::from(max_sources) * u128::from(nanoseconds)).checked_div(made)?;
    Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
}
