//! `ratelimit why`: it tells which rule decides about an address, and which rules it outranks.

mod report;

use std::{net::IpAddr, path::Path};

use anyhow::Result;
use ratelimit_common::identity::service::Service;

use crate::{
    cli::print::{answer::Answer, output::Output},
    dataplane::{Instance, sys::host},
    text::{prefix::Prefix, service::ServiceName},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The address of the source
    #[arg(value_name = "ADDRESS")]
    address: IpAddr,
    /// Only packets of this service: tcp, udp or sctp, also with a port (udp/53); tcp-syn (new connections); icmp, gre,
    /// esp, ah, ipip; or a protocol number. Without it, packets of a service without rules of its own
    #[arg(long, value_name = "PROTO[/PORT]")]
    service: Option<ServiceName>,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let address = Prefix::host(arguments.address.to_canonical());
    let service = arguments.service.map_or(Service::Any, |service| service.0);
    let instance = Instance::open(pins)?;
    let report = report::Report::read(&instance.tables, &address, service)?;
    // A slow reader must not keep other commands waiting for the lock.
    drop(instance);
    output.print(&report, |out| report.write(out))?;
    Ok(Answer::Done)
}
