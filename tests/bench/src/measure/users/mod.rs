//! What users feel: a web server and its users share one CPU with the reception of a flood, which another CPU sends.

mod client;
pub(crate) mod protection;
pub(crate) mod server;

use std::{
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use ratelimit_tests::{Running, Sandbox, Sink, VICTIM_IPV4, VICTIM_LINK, receive_by_timer};

use self::{
    client::Request,
    protection::{Protection, USERS},
};
use crate::{
    flood::{KINDS, Kind, Rate, SERVER_PORT},
    measure::{Extent, pin, receptions::Receptions},
    results::Felt,
};

/// The CPU of the server, the users and the reception.
const CPU: usize = 0;
/// Time between two interrupts of the network card.
const INTERRUPTS: Duration = Duration::from_micros(50);
/// Time in which most sources of a flood use their burst.
const WARM_UP: Duration = Duration::from_millis(800);

/// Measures, and prints what is missing.
pub(crate) fn run(extent: &Extent) -> Result<Vec<Felt>> {
    if let Err(error) = server::check() {
        println!("what users feel is not measured: {error:#}");
        return Ok(Vec::new());
    }
    // On one CPU, the sandbox makes a link with one queue. The flood and the users share it.
    pin(CPU)?;
    let sandbox = Sandbox::new();
    // Answers to the flood end where they leave the host.
    let _outside = Sink::passing_to(&sandbox, USERS);
    sandbox.victim(|| receive_by_timer(VICTIM_LINK, INTERRUPTS));
    let _server = server::start(&sandbox)?;
    let stage = Stage { sandbox: &sandbox, extent };
    let protections = Protection::ALL.into_iter().filter(|protection| protection.is_here(&sandbox));
    let protections: Vec<_> = protections.collect();
    let mut results: Vec<Felt> = Vec::new();
    for kind in KINDS.into_iter().filter(|kind| extent.sources.contains(&kind.sources)) {
        eprintln!("what users feel: {kind}");
        for rate in extent.rates {
            for protection in &protections {
                results.push(stage.sample(kind, *rate, *protection)?);
            }
        }
    }
    Ok(results)
}

/// The sandbox with the running server.
struct Stage<'a> {
    sandbox: &'a Sandbox,
    extent: &'a Extent,
}

impl Stage<'_> {
    fn sample(&self, kind: Kind, rate: Rate, protection: Protection) -> Result<Felt> {
        let _standing = protection.set_up(self.sandbox, kind.sources)?;
        // The first packet comes from the CPU of this thread, which then receives all others too.
        self.sandbox.peer(|| TcpStream::connect((VICTIM_IPV4, SERVER_PORT))).context("the server does not accept")?;
        let flood = kind.flood(rate).map(|flood| flood.start(self.sandbox));
        let sent = || flood.as_ref().map_or(0, Running::sent);
        let (window, requests) = client::during(self.sandbox, self.extent.patience, || -> Result<_> {
            thread::sleep(WARM_UP);
            let (begin, sent_before, receptions) = (Instant::now(), sent(), Receptions::now()?);
            thread::sleep(self.extent.window);
            let sent = sent() - sent_before;
            receptions.check_since_then(CPU)?;
            Ok((begin, Instant::now(), sent))
        })?;
        let (begin, end, sent) = window?;
        let seconds = (end - begin).as_secs_f64();
        let pages = requests.iter().filter(|request| request.succeeded && (begin..end).contains(&request.end));
        let begun: Vec<_> = requests.iter().filter(|request| (begin..end).contains(&request.begin)).collect();
        let failed = begun.iter().filter(|request| !request.succeeded).count();
        Ok(Felt {
            protocol: kind.protocol,
            sources: kind.sources,
            rate,
            protection: protection.name(),
            flood: sent as f64 / seconds,
            pages: pages.count() as f64 / seconds,
            milliseconds: slowest_of_a_hundred(&begun),
            failed: (!begun.is_empty()).then(|| failed as f64 / begun.len() as f64),
        })
    }
}

/// Returns the 99th percentile of the time of requests, including those that failed, in milliseconds.
fn slowest_of_a_hundred(requests: &[&Request]) -> Option<f64> {
    let mut times: Vec<_> = requests.iter().map(|request| request.end - request.begin).collect();
    times.sort_unstable();
    let last = times.len().checked_sub(1)?;
    Some(times[(last as f64 * 0.99).round() as usize].as_secs_f64() * 1e3)
}
