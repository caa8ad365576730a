//! Kills commands, the daemon, the process that waits for a confirmation, and upgrades at random moments under a flood.
//! Every packet that passes is counted: each source may send its burst once. `--record` writes the table into
//! docs/operations.md. A number of seconds makes the run shorter.
#![expect(clippy::expect_used, reason = "a check fails by panicking")]

mod arrivals;
mod victims;

use std::{
    env,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, ensure};
use ratelimit_tests::{Flood, Folder, Frame, Ratelimit, Sandbox, pages};

use self::{arrivals::receiving, victims::Victims};

/// Sources of the flood.
const SOURCES: u32 = 64;
/// Packets of each source. The rate is one per day.
const BURST: u64 = 10;
/// Time of all kills.
const TIME: Duration = Duration::from_mins(5);
/// The fewest kills.
const KILLS: u32 = 100;

fn main() -> Result<()> {
    let is_recorded = env::args().any(|argument| argument == "--record");
    let time = env::args().find_map(|argument| argument.parse().ok()).map_or(TIME, Duration::from_secs);
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    println!("seed {seed}");
    let sandbox = Sandbox::new();
    sandbox.leave_pins();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(&format!("interfaces = [\"eth0\"]\n[default]\npackets = \"1/d\"\nburst = {BURST}\n"));
    let mut victims = Victims::new(&sandbox, &folder, seed);
    let ((kills, sent), arrived) = receiving(&sandbox, || {
        let flood = Flood::of(Frame::udp([10, 9, 1, 0], arrivals::PORT)).sources(SOURCES).start(&sandbox);
        std::thread::sleep(Duration::from_millis(300));
        let (begin, mut kills) = (Instant::now(), 0);
        while begin.elapsed() < time || kills < KILLS {
            victims.kill_one();
            kills += 1;
        }
        (kills, flood.stop())
    });
    victims.end();
    ratelimit.ok("detach --all");
    let most = arrived.values().max().copied().unwrap_or(0);
    let passed: u64 = arrived.values().sum();
    let table = victims.table(sent, passed);
    println!(
        "{kills} kills, {sent} packets sent by {SOURCES} sources, {passed} passed, {most} at most of one source\n\n{table}"
    );
    if is_recorded {
        pages::record("docs/operations.md", "kills", &table)?;
    }
    ensure!(most <= BURST && passed == u64::from(SOURCES) * BURST, "each source must pass with {BURST} packets");
    Ok(())
}
