//! `ratelimit why`: it tells which rule decides about an address, and which rules it outranks.

mod bucket;
mod cause;
mod report;
mod shares;

use std::{net::IpAddr, path::Path};

use anyhow::{Result, ensure};
use ratelimit_base::text::{
    prefix::{Prefix, PrefixError},
    service::ServiceName,
};
use ratelimit_common::identity::{service::Service, source::IPV6};
use ratelimit_daemon::controller::socket::client;
use ratelimit_dataplane::{Instance, sys::host, tables::open::Tables};

use crate::cli::{
    print::{answer::Answer, output::Output},
    rules::sources_argument::Given,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The address of the source, or the IPv6 prefix that `sources` shows for it
    #[arg(value_name = "ADDRESS", value_parser = address)]
    address: Given<Prefix>,
    /// Only packets of this service: tcp, udp or sctp, also with a port (udp/53); tcp-syn (new connections); icmp, gre,
    /// esp, ah, ipip; or a protocol number. Without it, packets of a service without rules of its own
    #[arg(long, value_name = "PROTO[/PORT]")]
    service: Option<ServiceName>,
}

fn address(text: &str) -> Result<Given<Prefix>, PrefixError> {
    text.parse().map_or_else(|_| text.parse(), |address: IpAddr| address.to_canonical().to_string().parse())
}

/// Returns an address of the source. An IPv6 prefix is one source if it has the length of sources.
fn one_source(tables: &Tables, prefix: Prefix) -> Result<Prefix> {
    let is_ipv6 = prefix.source().family == IPV6;
    let is_source = prefix.is_host() || is_ipv6 && u32::from(prefix.bits()) >= tables.control()?.ipv6_prefix;
    ensure!(
        is_source,
        "{prefix} has many sources: name an address, or list them with `ratelimit sources {prefix}`, and rules with `ratelimit limit list`"
    );
    Ok(prefix.first())
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    arguments.address.say_cut()?;
    let service = arguments.service.map_or(Service::Any, |service| service.0);
    let instance = Instance::open(pins)?;
    let address = one_source(&instance.tables, arguments.address.value)?;
    let mut report = report::Report::read(&instance.tables, &address, service)?;
    // A slow reader must not keep other commands waiting for the lock.
    drop(instance);
    report.stops = client::stops(pins, &address);
    output.print(&report, |out| report.write(out))?;
    Ok(Answer::Done)
}
