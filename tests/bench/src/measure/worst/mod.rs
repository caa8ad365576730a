//! The most expensive traffic that a sender can choose for each feature, beside the bare default.

mod case;
mod features;
mod narrow;
mod rules;
mod traffic;

use anyhow::Result;
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Empty, Order, Sources, Walker};

use self::{
    case::{Case, Drops},
    traffic::{Traffic, V4},
};
use crate::{
    configurations::DEFAULT,
    measure::{
        Effort,
        noise::median,
        packet::{timed, verdicts},
        pin,
    },
    results::Worst,
    state::never_reached,
    table::{Axis, Row, Table},
};

/// Packets before each sample.
const WARM_UP: u32 = 100_000;

/// Largest ratio to the bare default that no traffic should exceed.
const MOST: f64 = 3.0;

/// Measures every row beside the bare default with as many sources.
pub(crate) fn run(effort: &Effort) -> Result<Vec<Worst>> {
    pin(0)?;
    features::ROWS.iter().chain(&narrow::ROWS).map(|case| measure(case, effort)).collect()
}

fn measure(case: &'static Case, effort: &Effort) -> Result<Worst> {
    eprintln!("worst cases: {}", case.name);
    let empty = Empty::load();
    let bare = Bytecode::with_kernel_clock_and((DEFAULT.settings)(Settings::default()));
    let mut bare = Subject::new(bare, V4, case.sources);
    (DEFAULT.rules)(&mut bare.bytecode, &never_reached());
    let bytecode = Bytecode::with_kernel_clock_and((case.settings)(Settings::default()));
    let mut tried = Subject::new(bytecode, case.traffic, case.sources);
    (case.rules)(&mut tried.bytecode);
    let (mut floor, mut of_bare, mut of_case, mut dropped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        bare.walker.lead_to(empty.program());
        floor.push(bare.sample(effort.packets)?.0);
        of_bare.push(bare.of_its_own(effort.packets)?.0);
        let (nanoseconds, share) = tried.of_its_own(effort.packets)?;
        of_case.push(nanoseconds);
        dropped.push(share);
    }
    let floor = median(&floor);
    let (default, nanoseconds) = (effort.figure(&of_bare) - floor, effort.figure(&of_case) - floor);
    let is_doubtful = match case.drops {
        Drops::None => median(&dropped) > 0.001,
        Drops::Some => median(&dropped) == 0.0,
        Drops::All => median(&dropped) < 0.95,
    };
    let dropped = median(&dropped);
    Ok(Worst { name: case.name, sources: case.sources, default, nanoseconds, floor, dropped, is_doubtful })
}

/// A program with its traffic.
struct Subject {
    bytecode: Bytecode,
    walker: Walker,
    sources: Sources,
}

impl Subject {
    fn new(bytecode: Bytecode, Traffic { frame, source_at }: Traffic, sources: Sources) -> Self {
        Self { bytecode, walker: Walker::of(frame(), source_at, 0), sources }
    }

    /// Runs packets through the program after a warm-up.
    fn of_its_own(&mut self, packets: u32) -> Result<(f64, f64)> {
        self.walker.lead_to(self.bytecode.program());
        if let Sources::Count(count) = self.sources {
            // The state after some seconds, in which sources have their buckets.
            let admissions = self.bytecode.set_admissions(u64::MAX);
            self.walker.run(self.sources, Order::InTurn, 4 * count);
            self.bytecode.set_admissions(admissions);
        }
        self.sample(packets)
    }

    /// Returns nanoseconds for each packet, and the share of packets that the limiter dropped.
    fn sample(&mut self, packets: u32) -> Result<(f64, f64)> {
        self.walker.run(self.sources, Order::Random, WARM_UP);
        let before = verdicts(&self.bytecode)?.1;
        let (nanoseconds, _) = timed(&mut self.walker, self.sources, packets);
        let dropped = verdicts(&self.bytecode)?.1 - before;
        Ok((nanoseconds, dropped as f64 / f64::from(packets)))
    }
}

/// Returns the table.
pub(crate) fn table(results: &[Worst]) -> Table {
    let rows = results.iter().map(|row| {
        let whole = (row.nanoseconds + row.floor) / (row.default + row.floor);
        let figures = [row.nanoseconds, row.default, row.nanoseconds / row.default, whole].map(Some).to_vec();
        let mark = if whole > MOST { " (above 3)" } else { "" };
        Row { name: format!("{}, {} sources{mark}", row.name, row.sources), figures, is_drawn: false }
    });
    Table {
        title: "worst cases".to_owned(),
        about: "Nanoseconds per packet above an empty program. *Bare default*: a passing packet under the default alone. *Ratio\n\
                whole* includes the time of the empty program.",
        plot: None,
        axis: Axis::Logarithmic,
        columns: ["packet", "bare default", "ratio", "ratio whole"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        digits: 1,
        references: &[],
    }
}
