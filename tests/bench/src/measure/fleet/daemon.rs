//! The daemon of a host: its CPU time and memory with many busy sources, with a server and without one.

use std::{fs, net::Ipv4Addr, os::unix::fs::PermissionsExt as _, thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use ratelimit_tests::{Daemon, Flood, Folder, Frame, Hosts, Ratelimit};

use crate::{
    measure::{Effort, cpu_time::ticks},
    table::{Row, Table},
};

/// Busy sources of each host.
const SOURCES: u32 = 10_000;
/// Packets per second of all sources to each host. Each source exceeds its limit.
const PACE: u64 = 50_000;
const LIMIT: &str = "4/s";
/// Seconds until all sources are reported.
const SETTLING: u64 = 20;
/// Seconds of a sample.
const SECONDS: u64 = 20;
/// The same for figures that are only roughly right.
const FEW_SECONDS: u64 = 5;
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 9, 1, 0);

/// What was measured, by row.
pub(super) struct Results(Vec<(&'static str, [f64; 5])>);

/// Starts daemons and measures the first one.
pub(super) fn run(effort: &Effort) -> Result<Results> {
    let seconds = if effort.has_special { SECONDS } else { FEW_SECONDS };
    eprintln!("daemon of a fleet");
    let hosts = Hosts::new(1);
    let redis = hosts.redis(&[]);
    let with_server = measure(&hosts, &format!("engine = \"{}\"\n", Hosts::url(0)), seconds)?;
    drop(redis);
    let hosts = Hosts::new(3);
    hosts.join();
    let folder = Folder::new();
    let password = folder.add("password", "a-password-of-the-fleet\n");
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600))?;
    let peers: Vec<_> = (0..hosts.hosts.len()).map(|number| format!("\"{}\"", Hosts::address(number))).collect();
    let keys =
        format!("engine = \"gossip\"\npeers = [{}]\npassword-file = \"{}\"\n", peers.join(", "), password.display());
    let with_gossip = measure(&hosts, &keys, seconds)?;
    Ok(Results(vec![("a server", with_server), ("gossip, 3 hosts", with_gossip)]))
}

/// Returns the figures of the first host: parts of a core in percent, megabytes, reports per second, and sources with a
/// share.
fn measure(hosts: &Hosts, keys: &str, seconds: u64) -> Result<[f64; 5]> {
    let folder = Folder::new();
    // Without cells, eight packets suffice to find a source.
    folder.write(&format!(
        "interfaces = [\"eth0\"]\n[default]\npackets = \"{LIMIT}\"\n[settings]\nfront = false\n[fleet]\n{keys}"
    ));
    let all: Vec<_> = hosts.hosts.iter().map(Ratelimit::new).collect();
    let start = |(host, ratelimit)| {
        let mut daemon = Daemon::start(host, ratelimit, &folder.file());
        // It says that the file is in force.
        daemon.line();
        daemon
    };
    let daemons: Vec<_> = hosts.hosts.iter().zip(&all).map(start).collect();
    let flood = Flood::of(Frame::udp(FIRST, 9)).sources(SOURCES).pace(PACE);
    let floods: Vec<_> = hosts.hosts.iter().map(|host| flood.start(host)).collect();
    thread::sleep(Duration::from_secs(SETTLING));
    let daemon = daemons.first().context("there is no host")?.process.child.id();
    let ratelimit = all.first().context("there is no host")?;
    let (before, first) = (ticks(daemon)?, ratelimit.json("fleet status"));
    thread::sleep(Duration::from_secs(seconds));
    let (after, status) = (ticks(daemon)?, ratelimit.json("fleet status"));
    let memory = megabytes(daemon)?;
    drop(floods);
    daemons.into_iter().for_each(Daemon::end);
    for ratelimit in &all {
        ratelimit.ok("detach --all");
    }
    let count = |status: &serde_json::Value, name: &str| status[name].as_f64().with_context(|| format!("no {name}"));
    let shared = count(&status, "shared")?;
    ensure!(shared > 0.9 * f64::from(SOURCES), "only {shared} sources have a share");
    // The kernel counts ticks in hundredths of a second, so these are percents.
    let [user, system] = [0, 1].map(|mode| (after[mode] - before[mode]) as f64 / seconds as f64);
    let reports = (count(&status, "reports")? - count(&first, "reports")?) / seconds as f64;
    Ok([user + system, user, system, memory, reports])
}

/// Returns the most memory that a process has had.
fn megabytes(process: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let kilobytes: f64 = kilobytes.context("the kernel does not tell the memory of the daemon")?.parse()?;
    Ok(kilobytes / 1024.0)
}

impl Results {
    pub(super) fn table(&self) -> Table {
        let row = |(name, figures): &(&str, [f64; 5])| Row {
            name: (*name).to_owned(),
            figures: figures.map(Some).to_vec(),
            is_drawn: false,
        };
        let columns = ["CPU in % of a core", "in user mode", "in kernel mode", "most memory in MB", "reports/s"];
        let rows = self.0.iter().map(row).collect();
        Table { about: ABOUT, ..Table::plain("the daemon of a host with 10,000 busy sources", columns, rows, 1) }
    }
}

/// What the table shows.
const ABOUT: &str = "\
Each source sends 5 packets per second to each host, and its limit is 4 per second. Each host reports every 0.2 seconds.
All hosts, their packets and the server are on this machine.";
