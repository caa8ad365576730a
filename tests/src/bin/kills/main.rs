//! Kills commands, the daemon, the process that waits for a confirmation, and upgrades at random moments under a flood.
//! Every packet that passes is counted: each source may send its burst once. `--record` writes the table into
//! docs/operations.md. A number of seconds makes the run shorter.
#![expect(clippy::expect_used, reason = "a check fails by panicking")]

mod arrivals;
mod victims;

use std::{
    env, fs,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use ratelimit_tests::{Flood, Folder, Frame, Ratelimit, Sandbox};

use self::{arrivals::receiving, victims::Victims};

/// The page with the table.
const PAGE: &str = "docs/operations.md";
/// Lines around the table.
const BEGIN: &str = "<!-- kills: begin -->\n";
const END: &str = "<!-- kills: end -->\n";

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
        record(&table)?;
    }
    ensure!(most <= BURST && passed == u64::from(SOURCES) * BURST, "each source must pass with {BURST} packets");
    Ok(())
}

/// Replaces the table of the page.
fn record(table: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?;
    let page = root.join(PAGE);
    let text = fs::read_to_string(&page).context(PAGE)?;
    let marks = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = marks.with_context(|| format!("{PAGE} has no place for the table"))?;
    fs::write(&page, format!("{before}{BEGIN}\n{table}\n{END}{after}")).context(PAGE)
}
