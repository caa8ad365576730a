//! Hostile input of the server for requests, and of hosts without a server: changed at random, one target after the other.

mod gossip;
mod grpc;
mod http;
mod keys;
mod mutate;
mod raw;
mod rules;
mod server;
mod target;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ratelimit_tests::{Sandbox, generate::random::Random};

use self::{
    gossip::Datagrams,
    grpc::Messages,
    http::{Bodies, Calls},
    keys::Keys,
    raw::{RawBytes, Version},
    rules::Files,
    server::Server,
    target::Target,
};

/// Inputs between two looks at the clock, at the memory of this process and at the server.
const BATCH: u64 = 512;
/// The most megabytes by which a process may grow.
const GROWTH: u64 = 96;

/// Runs all targets for this time each, or only one of them.
pub(crate) fn run(time: Duration, seed: u64, only: Option<&str>) -> Result<()> {
    let names = ["check", "batch", "rule", "call", "http1", "grpc", "http2", "file", "keys", "gossip"];
    if let Some(only) = only.filter(|only| !names.contains(only)) {
        bail!("no target is named {only}: expected one of {}", names.join(", "));
    }
    println!("{} s for each target, from the seed {seed}", time.as_secs());
    for name in names.into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
        fuzz(name, time, seed).with_context(|| format!("target {name}, from the seed {seed}"))?;
    }
    Ok(())
}

fn fuzz(name: &str, time: Duration, seed: u64) -> Result<()> {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox);
    let mut target: Box<dyn Target> = match name {
        "grpc" => Box::new(Messages::new(&server)?),
        "call" => Box::new(Calls::new(&server)),
        "http1" => Box::new(RawBytes::new(&server, Version::Http1)),
        "http2" => Box::new(RawBytes::new(&server, Version::Http2)),
        "file" => Box::new(Files::new()),
        "gossip" => Box::new(Datagrams::new(&sandbox)?),
        "keys" => Box::new(Keys::default()),
        _ => Box::new(Bodies::new(&server, name)?),
    };
    let mut random = Random::new(seed);
    let mut outcomes: Vec<(&str, u64)> = Vec::new();
    let (begin, mut number) = (Instant::now(), 0);
    let mut memory = None;
    while begin.elapsed() < time {
        for _ in 0..BATCH {
            number += 1;
            let outcome = target.next(&mut random).with_context(|| format!("input {number}"))?;
            match outcomes.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, count)) => *count += 1,
                None => outcomes.push((outcome, 1)),
            }
        }
        let now = [server.kilobytes()?, server::kilobytes("self")?];
        // The first inputs fill caches and tables.
        let first = *memory.get_or_insert(now);
        for (what, (now, first)) in ["the server", "this process"].iter().zip(now.iter().zip(first)) {
            if *now > first + GROWTH * 1_024 {
                bail!("input {number}: {what} takes {now} kB, and {first} kB before");
            }
        }
    }
    server.check()?;
    let [server, own] = [server.kilobytes()?, server::kilobytes("self")?];
    let each: Vec<_> = outcomes.iter().map(|(outcome, count)| format!("{outcome} {count}")).collect();
    println!("{name}: {number} inputs, {}; the server takes {server} kB, this process {own} kB", each.join(", "));
    Ok(())
}
