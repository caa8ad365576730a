//! Answers of the product's server by HTTP, beside a server that only answers 200.

use anyhow::Result;
use ratelimit_tests::Sandbox;

use super::{
    bare,
    servers::{self, CALLERS_CPU, COLUMNS, CPU, Product, local},
    wrk::Wrk,
};
use crate::{
    measure::{Effort, cpu_time::cpu_seconds, pin},
    table::{Row, Table},
};

const PRODUCT: u16 = 8_080;
const BARE: u16 = 8_081;
/// Seconds of a sample. `wrk` counts whole seconds.
const SECONDS: u64 = 3;
/// The same for figures that are only roughly right.
const FEW_SECONDS: u64 = 1;

/// One row.
struct Case {
    name: &'static str,
    port: u16,
    /// The number of the server's process.
    process: u32,
    /// The operation that requests name. It selects the rule.
    operation: &'static str,
    is_refused: bool,
}

/// The row that the others are compared with.
const REFERENCE: &str = "axum that only answers 200";

/// Measures everything, or says what is missing.
pub(super) fn run(effort: &Effort) -> Result<Option<Table>> {
    let sandbox = Sandbox::new();
    let wrk = match Wrk::find(&sandbox) {
        Ok(wrk) => wrk,
        Err(error) => {
            println!("HTTP is not measured: {error:#}");
            return Ok(None);
        }
    };
    pin(CPU)?;
    let product = Product::start(&sandbox, &format!("http = \"{}\"", local(PRODUCT)))?;
    let bare = servers::bare(&sandbox, bare::HTTP, local(BARE))?;
    let ours = product.process();
    let cases = [
        Case { name: REFERENCE, port: BARE, process: bare.child.id(), operation: "pass", is_refused: false },
        Case { name: "ratelimit, passing", port: PRODUCT, process: ours, operation: "pass", is_refused: false },
        Case { name: "ratelimit, over the limit", port: PRODUCT, process: ours, operation: "refuse", is_refused: true },
    ];
    pin(CALLERS_CPU)?;
    let seconds = if effort.has_special { SECONDS } else { FEW_SECONDS };
    // Each user's only request over the limit, and warm servers.
    for case in &cases {
        wrk.load(case.port, case.operation, FEW_SECONDS, None)?;
    }
    let mut samples = vec![[const { Vec::new() }; 3]; cases.len()];
    for round in 0..effort.rounds {
        effort.print_progress("HTTP", round + 1);
        for (case, samples) in cases.iter().zip(&mut samples) {
            let before = cpu_seconds(case.process)?;
            let load = wrk.load(case.port, case.operation, seconds, Some(case.is_refused))?;
            let cpu = cpu_seconds(case.process)? - before;
            samples[0].push(load.requests / load.seconds / 1e3);
            samples[1].push(load.requests / cpu / 1e3);
            samples[2].push(load.slowest_of_a_hundred * 1e3);
        }
    }
    let rows = cases.iter().zip(&samples).map(|(case, samples)| Row {
        name: case.name.to_owned(),
        figures: samples.iter().map(|rounds| Some(effort.figure(rounds))).collect(),
        is_drawn: false,
    });
    let table = Table::plain("answers by HTTP", COLUMNS, rows.collect(), 2);
    Ok(Some(Table { about: ABOUT, references: &[REFERENCE], ..table }))
}

/// What the table shows.
const ABOUT: &str = "\
`wrk` calls `POST /v1/check` on the loopback by 32 connections of HTTP/1.1. It has a CPU of its own, and each server has
the other one while it is called. The other server does not read what it is asked. The goal is at least 0.8 times its
answers per second, and at most 1.5 times its 99th percentile.";
