//! `cargo xtask crash`, `faults`, `kills` and `soak`: what failures of the system leave behind, what a fleet does without
//! its engine, what passes while processes are killed, and what grows in half an hour.

use std::process::Command;

use anyhow::Result;

use crate::{other, run, setup, target};

/// The modules of tests that kill commands at each system call. The first one kills those that a text chooses.
const KILLED: [&str; 3] = ["crash::", "many::interrupted::", "attach::replace::"];

/// Makes every command with a case fail or die at each system call that changes something. A text chooses the commands
/// that contain it.
pub(crate) fn system_calls(command: Option<&str>) -> Result<()> {
    run::require_root("crash")?;
    setup::for_tests()?;
    build(&["ratelimit"])?;
    other::build()?;
    let mut tests = run::cargo();
    tests.args(["test", "--locked", "--workspace", "--test", "commands", "--", "--ignored", "--nocapture"]);
    tests.args(if command.is_some() { &KILLED[..1] } else { &KILLED });
    tests.envs(command.map(|command| ("CRASH_COMMAND", command)));
    run::run(&mut tests)
}

/// Breaks the engine of a fleet, and the way to it.
pub(crate) fn engine() -> Result<()> {
    faults("fleet", &["faults::"])
}

/// Has hostile callers ask the server for requests, the daemon and an attach that waits.
pub(crate) fn requests() -> Result<()> {
    faults("commands", &["serve::faults::", "run::callers::", "confirm::a_confirmation_comes_through"])
}

fn faults(test: &str, names: &[&str]) -> Result<()> {
    run::require_root("faults")?;
    setup::for_tests()?;
    build(&["ratelimit"])?;
    let mut tests = run::cargo();
    tests.args(["test", "--locked", "--workspace", "--test", test, "--", "--include-ignored", "--nocapture"]);
    tests.arg("--test-threads=1").args(names);
    run::run(&mut tests)
}

/// Kills processes at random moments under a flood.
pub(crate) fn kills(is_recorded: bool) -> Result<()> {
    run::require_root("kills")?;
    setup::run()?;
    build(&["ratelimit", "kills"])?;
    other::build()?;
    program("kills", if is_recorded { &["--record"] } else { &[] })
}

/// Runs a daemon under a mixed load for so many minutes.
pub(crate) fn soak(minutes: u64) -> Result<()> {
    run::require_root("soak")?;
    setup::run()?;
    build(&["ratelimit", "soak"])?;
    program("soak", &[&minutes.to_string()])
}

/// Shows hosts that share one limit by a real server.
pub(crate) fn fleet_demo() -> Result<()> {
    run::require_root("fleet-demo")?;
    setup::for_builds()?;
    setup::unpacked::REDIS.provide()?;
    build(&["ratelimit", "fleet-demo"])?;
    program("fleet-demo", &[])
}

/// Builds programs with the features of `cargo test`, so that no library is built twice.
pub(super) fn build(programs: &[&str]) -> Result<()> {
    let mut cargo = run::cargo();
    cargo.args(["build", "--locked", "--workspace"]).args(programs.iter().flat_map(|program| ["--bin", program]));
    run::run(&mut cargo)
}

fn program(name: &str, arguments: &[&str]) -> Result<()> {
    run::run(Command::new(target::folder("debug")?.join(name)).args(arguments))
}
