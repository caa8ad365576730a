//! `ratelimit cost set | del | list`.

use std::path::Path;

use anyhow::Result;
use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{limits::policy::MOST_COST, rules::rule::COMMAND};
use ratelimit_daemon::ssh;
use ratelimit_dataplane::{Instance, rules::costs, sys::host};
use serde::Serialize;

use super::{change::missing, delete::Deleted};
use crate::cli::print::{
    answer::Answer,
    output::{self, Output, origin},
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Count each packet of a service as N packets
    ///
    /// Counts each packet of a service as N packets in every limit of packets, except for the algorithm sliding-log. If
    /// several services match a packet, the narrowest one with a cost counts.
    Set {
        /// tcp, udp or sctp, also with a port or a range of ports (udp/53, tcp/8000-8099); tcp-syn (new connections);
        /// icmp, gre, esp, ah, ipip; or a protocol number
        #[arg(value_name = "PROTO[/PORT[-PORT]]")]
        service: ServiceName,
        /// Packets that each packet counts as, from 1 to 50
        #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_COST)))]
        cost: u32,
    },
    /// Count each packet of a service as one again
    Del {
        /// Service, exactly as it was set
        #[arg(value_name = "PROTO[/PORT[-PORT]]")]
        service: ServiceName,
        /// Exit with status 0, too, if it has no cost
        #[arg(long)]
        if_exists: bool,
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

pub(crate) fn run(command: &Command, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let mut instance = Instance::open(pins)?;
    match *command {
        Command::Set { service, cost } => {
            let cost_of = costs::Cost { service: service.0, cost, origin: COMMAND };
            ssh::protect(&mut instance, false, |instance| instance.set_cost(cost_of))?;
            let row = Row { service: service.to_string(), cost, origin: origin(COMMAND) };
            output.print(&row, |out| writeln!(out, "{service}: each packet counts as {cost}"))?;
        }
        Command::Del { service, if_exists } => {
            if !costs::list(&instance.tables)?.iter().any(|cost| cost.service == service.0) {
                return missing(output, &[format!("{service} has no cost")], false, if_exists);
            }
            ssh::protect(&mut instance, false, |instance| instance.delete_cost(service.0))?;
            output.print(&Deleted::of(&service), |out| writeln!(out, "{service}: cost deleted"))?;
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
