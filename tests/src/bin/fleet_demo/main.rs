//! Demo of a fleet: one source sends to three hosts that share its limit. The server that they use is started, stopped,
//! and goes on.
#![expect(clippy::print_stdout, reason = "a demo prints")]

mod phase;
mod screen;

use std::{process::ExitCode, thread, time::Duration};

use ratelimit_tests::{Arrivals, Daemon, Flood, Folder, Frame, Hosts, Ratelimit};
use rustix::process::Signal;

use crate::{
    phase::{Engine, PHASES, Phase},
    screen::{OFFERED, PORT, RATE, SOURCE},
};

/// Time between two lines.
const STEP: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    screen::introduce();
    let hosts = Hosts::new(OFFERED.len());
    let folders: Vec<_> = hosts.hosts.iter().map(|_| Folder::new()).collect();
    let commands: Vec<_> = hosts.hosts.iter().map(Ratelimit::new).collect();
    let mut daemons = Vec::new();
    for (number, (host, folder)) in hosts.hosts.iter().zip(&folders).enumerate() {
        folder.write(&screen::file(&Hosts::url(number), number));
        let mut daemon = Daemon::start(host, &commands[number], &folder.file());
        // Its first line tells that the file is in force.
        let _ = daemon.line();
        daemons.push(daemon);
    }
    let arrivals: Vec<_> = hosts.hosts.iter().map(|host| Arrivals::begin(host, SOURCE, PORT)).collect();
    let flood = |(host, rate): (_, &u64)| Flood::of(Frame::udp(SOURCE, PORT)).pace(*rate).start(host);
    let floods: Vec<_> = hosts.hosts.iter().zip(&OFFERED).map(flood).collect();

    let mut server = None;
    let mut has_held = true;
    for phase in &PHASES {
        screen::head(phase);
        match phase.engine {
            Engine::None => {}
            Engine::Starts => server = Some(hosts.redis(&[])),
            Engine::Stops => signal(server.as_ref(), Signal::STOP),
            Engine::GoesOn => signal(server.as_ref(), Signal::CONT),
        }
        has_held &= play(phase, &arrivals);
    }
    drop(floods);
    print!("\n$ ratelimit fleet status\n{}", commands[0].ok("fleet status"));
    daemons.into_iter().for_each(Daemon::end);
    commands.iter().for_each(|ratelimit| {
        ratelimit.ok("detach --all");
    });
    screen::conclude(has_held);
    if has_held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Shows each second of a phase. Returns whether its last seconds are as promised.
fn play(phase: &Phase, arrivals: &[Arrivals]) -> bool {
    let mut sums = Vec::new();
    let mut begin = Arrivals::now();
    for _ in 0..phase.seconds {
        thread::sleep(STEP);
        let end = begin + STEP;
        let rates: Vec<_> = arrivals.iter().map(|host| host.between(begin, end)).collect();
        sums.push(screen::second(&rates));
        begin = end;
    }
    let last = &sums[sums.len().saturating_sub(phase::JUDGED)..];
    let mean = last.iter().sum::<usize>() as f64 / last.len() as f64 / RATE as f64;
    screen::judge(phase, mean)
}

fn signal(server: Option<&ratelimit_tests::Redis>, signal: Signal) {
    if let Some(server) = server {
        server.process.signal(signal);
    }
}
