//! `ratelimit cost set | del | list`.

use std::path::Path;

use anyhow::Result;
use ratelimit_common::{limits::policy::MOST_COST, rules::rule::COMMAND};
use serde::Serialize;

use super::{
    Answer,
    change::{Deleted, negative},
    output::{self, Output, origin},
};
use crate::{
    dataplane::{Instance, rules::costs, sys::host},
    service::ServiceName,
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Let each packet of a service count as N packets, whichever limit it is billed to (but for sliding-log, which counts each as one); of several services, the narrowest with a cost counts
    Set {
        /// tcp, udp, sctp, each alone or with a port (udp/53); tcp-syn (new connections); icmp, gre, esp, ah, ipip; or a protocol's number
        #[arg(value_name = "PROTO[/PORT]")]
        service: ServiceName,
        /// From 1 to 50
        #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_COST)))]
        cost: u32,
    },
    /// Let packets of a service count as one again
    Del {
        /// As it was set
        #[arg(value_name = "PROTO[/PORT]")]
        service: ServiceName,
    },
    /// List the costs
    List,
}

#[derive(Debug, Serialize)]
struct Row {
    service: String,
    cost: u32,
    origin: &'static str,
}

pub(super) fn run(command: &Command, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let mut instance = Instance::open(pins)?;
    match *command {
        Command::Set { service, cost } => {
            instance.set_cost(costs::Cost { service: service.0, cost, origin: COMMAND })?;
            let row = Row { service: service.to_string(), cost, origin: origin(COMMAND) };
            output.print(&row, |out| writeln!(out, "{service}: each packet counts as {cost}"))?;
        }
        Command::Del { service } => {
            if !costs::list(&instance.tables)?.iter().any(|cost| cost.service == service.0) {
                return negative(output, &format!("{service} has no cost"));
            }
            instance.delete_cost(service.0)?;
            output.print(&Deleted { deleted: service.to_string() }, |out| writeln!(out, "{service}: cost deleted"))?;
        }
        Command::List => {
            let rows: Vec<_> = costs::list(&instance.tables)?
                .into_iter()
                .map(|cost| Row {
                    service: ServiceName(cost.service).to_string(),
                    cost: cost.cost,
                    origin: origin(cost.origin),
                })
                .collect();
            output.print(&rows, |out| {
                if rows.is_empty() {
                    return writeln!(out, "no costs: every packet counts as one");
                }
                let cells: Vec<_> =
                    rows.iter().map(|row| [row.service.clone(), row.cost.to_string(), row.origin.to_owned()]).collect();
                output::table(out, ["service", "cost", "origin"], &cells)
            })?;
        }
    }
    Ok(Answer::Done)
}
