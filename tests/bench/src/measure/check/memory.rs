//! Memory of clients by algorithm: the growth of a process that has only one limiter.

use std::{env, fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use ratelimit_limiter::{Algorithm, Rate};

use super::{keys::key, limiter::Limiter, ours::Ours};
use crate::{
    measure::Effort,
    table::{Row, Table},
};

/// The argument of the process.
pub(super) const OF: &str = "--memory-of";

/// Requests per hour of each client, as in the classic estimates.
const REQUESTS: usize = 500;
/// Nanoseconds of an hour.
const HOUR: u64 = 3_600_000_000_000;
/// Clients with whole logs, of which a million do not fit into most machines.
const FEW: usize = 10_000;
/// Clients in the table.
const MILLION: f64 = 1e6;

/// One row.
struct Case {
    name: &'static str,
    /// The name of the limiter in the process.
    limiter: &'static str,
    requests: usize,
    /// The classic estimate in megabytes.
    estimate: Option<f64>,
}

/// Measures everything.
pub(super) fn run(effort: &Effort) -> Result<Table> {
    let rows = cases().into_iter().map(|case| {
        eprintln!("memory of {}", case.name);
        let clients = if case.requests > 1 { FEW } else { effort.million as usize };
        let bytes = growth(case.limiter, clients, case.requests)? / clients as f64;
        let figures = vec![Some(bytes * MILLION / 1e6), case.estimate];
        Ok(Row { name: case.name.to_owned(), figures, is_drawn: false })
    });
    let columns = ["measured", "classic estimate"];
    let table = Table::plain("megabytes for a million clients", columns, rows.collect::<Result<_>>()?, 0);
    Ok(Table { about: ABOUT, ..table })
}

fn cases() -> Vec<Case> {
    let one = |algorithm: Algorithm| {
        let estimate = match algorithm {
            Algorithm::TokenBucket => Some(36.0),
            Algorithm::SlidingCounters => Some(1_600.0),
            _ => None,
        };
        Case { name: algorithm.name(), limiter: algorithm.name(), requests: 1, estimate }
    };
    let log = Algorithm::SlidingLog.name();
    let mut cases: Vec<_> = Algorithm::ALL.map(one).into();
    cases.push(Case { name: "sliding-log, whole", limiter: log, requests: REQUESTS, estimate: Some(12_000.0) });
    #[cfg(feature = "peers")]
    for name in [super::peers::GOVERNOR, super::peers::LIMITADOR] {
        cases.push(Case { name, limiter: name, requests: 1, estimate: None });
    }
    cases
}

/// Returns the growth of a process with this limiter, in bytes.
fn growth(limiter: &str, clients: usize, requests: usize) -> Result<f64> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(OF).arg(limiter).arg(clients.to_string()).arg(requests.to_string());
    let output = command.output()?;
    ensure!(output.status.success(), "{limiter}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Prints by how many bytes this process grows for so many clients with so many requests each.
pub(super) fn print(name: &str, clients: usize, requests: usize) -> Result<()> {
    let before = resident()?;
    let limiter = limiter(name, clients)?;
    for number in 0..clients {
        let key = [key(number)];
        for _ in 0..requests {
            let allowed = limiter.prepare(&key)();
            ensure!(allowed == 1, "{name} refuses a request");
        }
    }
    println!("{}", resident()?.saturating_sub(before));
    Ok(())
}

fn limiter(name: &str, clients: usize) -> Result<Box<dyn Limiter>> {
    #[cfg(feature = "peers")]
    match name {
        super::peers::GOVERNOR => return super::peers::governor(crate::state::State::Over),
        super::peers::LIMITADOR => return super::peers::limitador(crate::state::State::Over, clients),
        _ => {}
    }
    let algorithm = Algorithm::of(name).with_context(|| format!("no limiter has the name {name}"))?;
    let rate = Rate { amount: REQUESTS as u64, period: HOUR };
    Ok(Box::new(Ours::new(rate, algorithm, 2 * clients)?))
}

/// Returns the bytes of this process in memory.
fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")).context("the kernel does not tell memory")?;
    Ok(kilobytes.trim().parse::<u64>()? * 1_024)
}

/// What the table shows.
const ABOUT: &str = "\
Each limit is 500 requests per hour, as in the classic estimates. Each client has sent one request. *Whole* logs have
500 requests of each of 10,000 clients, multiplied by a hundred, since a million of them do not fit here. The limiter
has room for twice as many clients. *Measured* is the growth of a process. A megabyte is a million bytes.";
