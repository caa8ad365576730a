//! The check interface: decisions in the library, answers by HTTP and gRPC, and memory, beside their peers.

mod bare;
mod decisions;
mod grpc;
mod http;
mod keys;
mod limiter;
mod memory;
mod ours;
#[cfg(feature = "peers")]
mod peers;
mod servers;
mod sharing;
mod wrk;

use std::{env, thread};

use anyhow::{Context as _, Result, ensure};

use self::servers::CALLERS_CPU;
use crate::{measure::Effort, table::Table};

/// Measures everything.
pub(crate) fn run(effort: &Effort) -> Result<Vec<Table>> {
    ensure!(thread::available_parallelism()?.get() > CALLERS_CPU, "two threads need a second CPU");
    // First, since the others move threads of this process to one CPU.
    let memory = memory::run(effort)?;
    let mut tables = decisions::run(effort)?;
    tables.extend(http::run(effort)?);
    tables.push(grpc::run(effort)?);
    tables.push(sharing::run(effort)?);
    tables.push(memory);
    Ok(tables)
}

/// Works as a child of the benchmark if the arguments say so: as a server, or as a process whose memory is measured.
pub(crate) fn work_as_child() -> Option<Result<()>> {
    let mut arguments = env::args().skip(1);
    let work = arguments.next()?;
    let mut next = || arguments.next().context("an argument is missing");
    match work.as_str() {
        bare::HTTP => Some(next().and_then(|address| bare::serve_http(&address))),
        bare::GRPC => Some(next().and_then(|address| bare::serve_grpc(&address))),
        memory::OF => Some(next().and_then(|name| memory::print(&name, next()?.parse()?, next()?.parse()?))),
        _ => None,
    }
}
