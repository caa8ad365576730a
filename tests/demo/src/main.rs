//! Demo with real traffic: a web server is flooded, `ratelimit` protects it, and a client measures the difference.

mod check;
mod client;
mod interrupt;
mod phase;
mod sample;
mod screen;
mod server;
mod stage;
mod summary;
mod wiring;
mod words;

use std::{panic, process::ExitCode, thread};

use anyhow::Result;
use ratelimit_sandbox::Sandbox;

use crate::{client::Client, phase::PHASES, screen::Screen, server::Server, stage::Stage};

fn main() -> ExitCode {
    interrupt::install();
    match demo() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Plays all phases and returns whether every promise was kept.
fn demo() -> Result<bool> {
    let sandbox = Sandbox::new();
    // After a failure, the error matters and not the remaining pins.
    sandbox.leave_pins();
    stage::prepare(&sandbox)?;
    let server = Server::start(&sandbox)?;
    let client = Client::default();
    let screen = Screen::new();
    screen.introduce()?;

    // From here on every packet is counted.
    let mut stage = Stage::new(&sandbox, &client, &screen)?;
    let played = thread::scope(|scope| {
        scope.spawn(|| server.serve());
        let requests = scope.spawn(|| sandbox.peer(|| client.run()));
        let played = PHASES.iter().map(|phase| stage.play(phase)).collect::<Result<Vec<_>>>();
        client.stop();
        // The server runs until the last request has its response.
        let requested = requests.join();
        server.stop();
        requested.map_or_else(|payload| panic::resume_unwind(payload), |()| played)
    })?;
    let end = stage.end()?;
    summary::print(&played, &client.requests(), &end)
}
