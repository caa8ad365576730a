//! Fleets that share a limit: simulated ones, the packet cost of leases, the engine, and the daemon.

mod daemon;
mod engine;
mod leases;
mod model;

use anyhow::Result;

use crate::{measure::Effort, results::Packet, table::Table};

/// Measures everything. Returns the tables, and the packets with and without leases.
pub(crate) fn run(effort: &Effort) -> Result<(Vec<Table>, Vec<Packet>)> {
    // First, since it fails at once without a server, and since packets move this thread to one CPU.
    let engine = engine::run(effort)?;
    let daemon = daemon::run(effort)?;
    let leases = leases::run(effort)?;
    let tables = [model::tables(), leases.tables(), engine.tables(), vec![daemon.table()]];
    Ok((tables.into_iter().flatten().collect(), leases.packets()))
}
