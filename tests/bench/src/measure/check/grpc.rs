//! Answers of the product's server by Envoy's gRPC service, beside a server that only answers OK.

use std::{
    panic::resume_unwind,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use envoy_types::pb::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
    service::ratelimit::v3::{
        RateLimitRequest, rate_limit_response::Code, rate_limit_service_client::RateLimitServiceClient,
    },
};
use ratelimit_tests::Sandbox;
use tokio::{runtime, task::JoinSet};
use tonic::transport::{Channel, Endpoint};

use super::{
    bare,
    keys::key,
    servers::{self, CALLERS_CPU, COLUMNS, CPU, Product, local},
};
use crate::{
    measure::{Effort, cpu_time::cpu_seconds, pin},
    table::{Row, Table},
};

const PRODUCT: u16 = 8_082;
const BARE: u16 = 8_083;
/// Connections, and callers of each.
const CONNECTIONS: usize = 4;
const CALLERS: usize = 8;
/// Users that are asked for in turn.
const USERS: usize = 10_000;
/// Time of a sample.
const TIME: Duration = Duration::from_secs(3);
/// The same for figures that are only roughly right.
const SHORT_TIME: Duration = Duration::from_secs(1);

/// The row that the other is compared with.
const REFERENCE: &str = "tonic that only answers OK";

/// Measures everything, and says what is missing.
pub(super) fn run(effort: &Effort) -> Result<Table> {
    let sandbox = Sandbox::new();
    pin(CPU)?;
    let bare = servers::bare(&sandbox, bare::GRPC, local(BARE))?;
    let mut cases = vec![(REFERENCE, BARE, bare.child.id())];
    let product = Product::start(&sandbox, &format!("grpc = \"{}\"", local(PRODUCT)));
    match &product {
        Ok(product) => cases.push(("ratelimit", PRODUCT, product.process())),
        Err(error) => println!("gRPC of the product is not measured: {error:#}"),
    }
    pin(CALLERS_CPU)?;
    let time = if effort.has_special { TIME } else { SHORT_TIME };
    let mut samples = vec![[const { Vec::new() }; 3]; cases.len()];
    for round in 0..effort.rounds {
        effort.print_progress("gRPC", round + 1);
        for ((_, port, process), samples) in cases.iter().zip(&mut samples) {
            // Warm servers.
            load(&sandbox, *port, SHORT_TIME / 4)?;
            let (begin, before) = (Instant::now(), cpu_seconds(*process)?);
            let mut times = load(&sandbox, *port, time)?;
            let (seconds, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds(*process)? - before);
            times.sort_unstable();
            let slowest = times.get(times.len() * 99 / 100).context("no call was answered")?;
            samples[0].push(times.len() as f64 / seconds / 1e3);
            samples[1].push(times.len() as f64 / cpu / 1e3);
            samples[2].push(slowest.as_secs_f64() * 1e3);
        }
    }
    let rows = cases.iter().zip(&samples).map(|((name, ..), samples)| Row {
        name: (*name).to_owned(),
        figures: samples.iter().map(|rounds| Some(effort.figure(rounds))).collect(),
        is_drawn: false,
    });
    let table = Table::plain("answers by gRPC", COLUMNS, rows.collect(), 2);
    Ok(Table { about: ABOUT, references: &[REFERENCE], ..table })
}

/// Calls a server on the CPU of this thread. Returns how long each call took.
fn load(sandbox: &Sandbox, port: u16, time: Duration) -> Result<Vec<Duration>> {
    sandbox.victim(|| {
        runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
            let end = Instant::now() + time;
            let mut callers = JoinSet::new();
            for connection in 0..CONNECTIONS {
                let channel = Endpoint::from_shared(format!("http://{}", local(port)))?.connect().await?;
                for caller in 0..CALLERS {
                    callers.spawn(call(channel.clone(), connection * CALLERS + caller, end));
                }
            }
            let mut times = Vec::new();
            while let Some(caller) = callers.join_next().await {
                times.extend(caller.unwrap_or_else(|error| resume_unwind(error.into_panic()))?);
            }
            Ok(times)
        })
    })
}

/// Calls until the end, one call after the other.
async fn call(channel: Channel, first: usize, end: Instant) -> Result<Vec<Duration>> {
    let mut client = RateLimitServiceClient::new(channel);
    let (mut times, mut user) = (Vec::new(), first);
    while Instant::now() < end {
        let request = request(user % USERS);
        user += CONNECTIONS * CALLERS;
        let begin = Instant::now();
        let response = client.should_rate_limit(request).await?.into_inner();
        times.push(begin.elapsed());
        ensure!(response.overall_code() == Code::Ok, "a call is refused");
    }
    Ok(times)
}

/// Returns the request of a user whom the rule lets pass.
fn request(user: usize) -> RateLimitRequest {
    let entry = |key: &str, value: String| Entry { key: key.to_owned(), value };
    let entries = vec![entry("operation", "pass".to_owned()), entry("user", key(user))];
    let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
    RateLimitRequest { domain: "bench".to_owned(), descriptors, hits_addend: 1 }
}

/// What the table shows.
const ABOUT: &str = "\
32 callers use the generated client of `envoy.service.ratelimit.v3`, by 4 connections on the loopback. They have a CPU
of their own, and each server has the other one while it is called. A call costs the client about as much as the
server, so compare the answers per CPU second. The goal is at least 0.8 times those of the other server.";
