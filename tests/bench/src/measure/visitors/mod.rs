//! A new visitor's chance: visitors that nobody knows get a page beside a flood of forged packets. A web server, its
//! visitors and the reception of the flood share one CPU.

pub(crate) mod downloads;
pub(crate) mod known;
pub(crate) mod layout;
mod losses;
pub(crate) mod protection;
mod segments;
mod stage;
mod visit;
pub(crate) mod visited;

use std::{panic::resume_unwind, thread, time::Duration};

use anyhow::Result;
use ratelimit_tests::Sources;

use self::{downloads::Downloaded, known::Known, layout::Sender, stage::Stage, visited::Visited};
use crate::{
    flood::{KINDS, Kind, Protocol, Rate},
    measure::users::server,
};

/// Extent of the measurement.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    protocols: &'static [Protocol],
    rates: &'static [Rate],
    /// The flood of another CPU.
    fastest: Rate,
    /// Visitors beside each flood.
    visitors: u32,
    /// Time after which a visitor leaves.
    patience: Duration,
    /// Clients that download beside each flood, and bytes of each of them.
    clients: u32,
    bytes: usize,
    /// Loads of the program that judges known sources.
    loads: usize,
}

impl Extent {
    /// Returns the extent of `cargo xtask bench --visitors`.
    pub(crate) const FULL: Self = Self {
        protocols: &[Protocol::Syn, Protocol::Udp],
        rates: &[
            Rate::None,
            Rate::PerSecond(100_000),
            Rate::PerSecond(200_000),
            Rate::PerSecond(300_000),
            Rate::PerSecond(400_000),
            Rate::PerSecond(600_000),
            Rate::PerSecond(1_000_000),
            Rate::PerSecond(1_500_000),
            Rate::PerSecond(2_000_000),
            Rate::PerSecond(3_000_000),
        ],
        fastest: Rate::Most,
        visitors: 100,
        patience: Duration::from_secs(1),
        clients: 8,
        bytes: 16_000_000,
        loads: 5,
    };

    /// Returns the extent of `cargo xtask bench --quick --visitors`.
    pub(crate) const QUICK: Self = Self {
        rates: &[Rate::None, Rate::PerSecond(200_000), Rate::PerSecond(1_000_000)],
        visitors: 20,
        clients: 2,
        bytes: 1_000_000,
        loads: 1,
        ..Self::FULL
    };
}

/// The results.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) visited: Vec<Visited>,
    pub(crate) downloaded: Vec<Downloaded>,
    pub(crate) known: Vec<Known>,
}

/// Measures, and prints what is missing.
pub(crate) fn run(extent: &Extent) -> Result<Results> {
    if let Err(error) = server::check() {
        println!("the chance of visitors is not measured: {error:#}");
        return Ok(Results::default());
    }
    let loads = extent.loads;
    let mut results = Results { known: apart(move || known::run(loads))?, ..Results::default() };
    for kind in extent.kinds() {
        let extent = *extent;
        results.visited.extend(apart(move || beside_flood(&extent, kind))?);
    }
    for kind in extent.kinds() {
        let extent = *extent;
        let (visited, downloaded) = apart(move || beside_the_fastest(&extent, kind))?;
        results.visited.extend(visited);
        results.downloaded.extend(downloaded);
    }
    Ok(results)
}

/// Measures on a thread of its own, since it moves to one CPU.
fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    thread::spawn(work).join().unwrap_or_else(|payload| resume_unwind(payload))
}

/// Measures floods of all rates. What is left of them, for example tracked connections, ends with the sandbox.
fn beside_flood(extent: &Extent, kind: Kind) -> Result<Vec<Visited>> {
    let mut results = Vec::new();
    let stage = Stage::new(Sender::Same)?;
    let protections = stage.protections();
    for rate in extent.rates {
        eprintln!("visitors beside {kind}, {rate}");
        for protection in &protections {
            results.push(stage.visit((kind, *rate, *protection), extent.visitors, extent.patience)?);
        }
    }
    Ok(results)
}

/// Measures no flood and the fastest one, and downloads beside them.
fn beside_the_fastest(extent: &Extent, kind: Kind) -> Result<(Vec<Visited>, Vec<Downloaded>)> {
    let (mut visited, mut downloaded) = (Vec::new(), Vec::new());
    let stage = Stage::new(Sender::Other)?;
    let protections = stage.protections();
    for rate in [Rate::None, extent.fastest] {
        eprintln!("visitors and downloads beside {kind} of another CPU, {rate}");
        for protection in &protections {
            visited.push(stage.visit((kind, rate, *protection), extent.visitors, extent.patience)?);
        }
        downloaded.push(downloads::run(&stage, (kind, rate), extent.clients, extent.bytes)?);
    }
    Ok((visited, downloaded))
}

impl Extent {
    fn kinds(&self) -> impl Iterator<Item = Kind> {
        let is_forged = |kind: &Kind| kind.sources == Sources::Endless && self.protocols.contains(&kind.protocol);
        KINDS.into_iter().filter(is_forged)
    }
}
