//! One limit on three servers: how close to it all of them together stay.

use anyhow::{Result, ensure};
use ratelimit_tests::{Redis, Sandbox, Sharing};

use crate::{
    measure::Effort,
    table::{Row, Table},
};

/// Seconds of a run.
const SECONDS: usize = 60;
/// The same for figures that are only roughly right.
const FEW_SECONDS: usize = 30;
/// The first seconds. Each server begins with its whole limit.
const BEGIN: usize = 5;
/// Seconds over which a rate is taken.
const SPANS: [usize; 3] = [1, 5, 20];

/// Measures everything.
pub(super) fn run(effort: &Effort) -> Result<Table> {
    let sandbox = Sandbox::new();
    let redis = Redis::start(&sandbox, &[]);
    let servers = Sharing::start(&sandbox, &redis);
    let seconds = if effort.has_special { SECONDS } else { FEW_SECONDS };
    eprintln!("one limit on three servers: {seconds} seconds");
    let admitted: Vec<f64> = servers.saturate(seconds).iter().map(|second| second.admitted).collect();
    servers.end();
    let settled = admitted.get(BEGIN..).unwrap_or_default();
    let rows = SPANS.into_iter().map(|span| {
        let rates: Vec<f64> = settled.windows(span).map(|rates| rates.iter().sum::<f64>() / span as f64).collect();
        ensure!(!rates.is_empty(), "the run is shorter than {span} seconds");
        let percent = |rate: f64| Some((rate - 1.0) * 100.0);
        let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = rates.iter().copied().fold(0.0, f64::max);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let figures = vec![percent(mean), percent(lowest), percent(highest)];
        Ok(Row { name: format!("over {span} s"), figures, is_drawn: false })
    });
    let columns = ["mean", "lowest", "highest"];
    let table = Table::plain("one limit on three servers, in % from it", columns, rows.collect::<Result<_>>()?, 2);
    Ok(Table { about: ABOUT, ..table })
}

/// What the table shows.
const ABOUT: &str = "\
Three servers share 1,000 requests per second of a user through a real Redis, with a period of 100 ms. Callers ask each
of them for twice the limit during a minute. The first five seconds are left out, since each server begins with its
whole limit. The goal is 1 % in each span.";
