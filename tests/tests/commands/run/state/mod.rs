//! The state file: debts and bans outlast a reboot. `detach --all` leaves as little as a reboot.

mod bans;
mod problems;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox};
use rustix::process::Signal;
use serde_json::json;

use super::footprint::memory;

/// A part of an IPv6 source with a rule of its own.
const PART: &str = "[[rule]]\nsource = \"fd00:9:0:8::5\"\npackets = \"1/d\"\nburst = 4\n";

const LIMITS: &str = "[default]\npackets = \"1/h\"\nburst = 6\n[service.\"udp/53\"]\npackets = \"1/h\"\nburst = 4\n";

/// Returns the folder of the configuration and the path of the state file in it.
fn folder() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let state = folder.file().with_file_name("state");
    (folder, state)
}

fn file(state: &Path, rest: &str) -> String {
    format!("interfaces = [\"eth0\"]\n{rest}\n[state]\nfile = \"{}\"\n", state.display())
}

fn start(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, folder: &Folder) -> (Daemon, String) {
    let mut daemon = Daemon::start(sandbox, ratelimit, &folder.file());
    let line = daemon.line();
    (daemon, line)
}

/// Sends packets of a source to a port. Returns how many pass.
fn passing(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, source: [u8; 4], port: u16, packets: u64) -> u64 {
    let dropped = || ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
    let before = dropped();
    Flood::of(Frame::udp(source, port)).send(sandbox, packets);
    packets - (dropped() - before)
}

#[test]
fn a_source_in_debt_is_still_refused_after_a_reboot() {
    for front in ["", "[settings]\nfront = false\n"] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        let (folder, state) = folder();
        folder.write(&file(&state, &format!("{front}{LIMITS}{PART}")));
        let (daemon, line) = start(&sandbox, &ratelimit, &folder);
        assert!(line.ends_with("attached to eth0"), "{line}");
        let passing = |source, port, packets| passing(&sandbox, &ratelimit, source, port, packets);
        assert_eq!([passing([10, 9, 0, 66], 9, 20), passing([10, 9, 0, 66], 53, 20)], [6, 4]);
        let v6 = [[0xfd00, 9, 0, 7, 0, 0, 0, 1], [0xfd00, 9, 0, 8, 0, 0, 0, 5]].map(|source| Frame::udp(source, 9));
        v6.iter().for_each(|frame| Flood::of(frame.clone()).send(&sandbox, 20));
        daemon.end();
        assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);
        ratelimit.ok("detach --all");

        let (daemon, line) = start(&sandbox, &ratelimit, &folder);
        assert!(line.ends_with("attached to eth0; restored debts: 4, bans: 0"), "{line}");
        assert_eq!([passing([10, 9, 0, 66], 9, 20), passing([10, 9, 0, 66], 53, 20)], [0, 0], "{front}");
        let dropped = ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
        v6.iter().for_each(|frame| Flood::of(frame.clone()).send(&sandbox, 20));
        assert_eq!(ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap() - dropped, 40, "{front}");
        // Others have their whole burst.
        assert_eq!(passing([10, 9, 0, 67], 9, 20), 6);
        daemon.end();
        ratelimit.ok("detach --all");
    }
}

#[test]
fn a_part_of_a_burst_is_still_owed_and_a_debt_belongs_to_its_service() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, state) = folder();
    let rule = "[[rule]]\nsource = \"10.9.0.0/16\"\npackets = \"10/d\"\nburst = 100\n";
    let learned = "[settings]\nunknown = \"auto\"\n";
    folder.write(&file(&state, &format!("{LIMITS}{rule}{learned}")));
    let (daemon, _) = start(&sandbox, &ratelimit, &folder);
    let passing = |source, port, packets| passing(&sandbox, &ratelimit, source, port, packets);
    assert_eq!([passing([10, 9, 0, 66], 9, 80), passing([10, 8, 0, 66], 53, 20)], [80, 4]);
    // The first packet has ended a minute. A new program has none.
    let calm_minutes = || ratelimit.json("status")["unknown"]["learned"]["calm_minutes"].clone();
    assert_eq!(calm_minutes(), 1);
    daemon.end();
    ratelimit.ok("detach --all");

    // The service has no limit any more. Its debt is nobody else's.
    let limits = LIMITS.replace("udp/53", "udp/54");
    folder.write(&file(&state, &format!("{limits}{rule}{learned}")));
    let (daemon, line) = start(&sandbox, &ratelimit, &folder);
    let restored = "restored debts: 1, bans: 0, the learned rate of unknown sources, left out: 1";
    assert!(line.ends_with(restored), "{line}");
    assert_eq!(calm_minutes(), 1);
    assert_eq!([passing([10, 9, 0, 66], 9, 80), passing([10, 8, 0, 66], 53, 20)], [20, 6]);
    daemon.end();
    ratelimit.ok("detach --all");

    // A smaller limit cannot make the debt of the larger one.
    folder.write(&file(&state, &format!("{limits}{}", rule.replace("10/d", "10/s"))));
    let (daemon, _) = start(&sandbox, &ratelimit, &folder);
    thread::sleep(Duration::from_millis(1_100));
    assert!(passing([10, 9, 0, 66], 9, 80) >= 10);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_ban_ends_when_it_would_have_ended_and_the_next_one_is_longer() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, state) = folder();
    let limit = "[default]\npackets = \"1/h\"\nburst = 3\n";
    let with_ban = format!("{limit}ban = \"10m\"\nban-cap = \"2h\"\n");
    folder.write(&file(&state, &with_ban));
    let (daemon, _) = start(&sandbox, &ratelimit, &folder);
    let send = || Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    send();
    daemon.end();
    ratelimit.ok("detach --all");

    // A ban outlasts the limit that set it.
    folder.write(&file(&state, limit));
    let (daemon, line) = start(&sandbox, &ratelimit, &folder);
    assert!(line.ends_with("restored debts: 1, bans: 1"), "{line}");
    let bans = ratelimit.json("deny list");
    assert_eq!((&bans[0]["source"], &bans[0]["origin"]), (&json!("10.9.0.66"), &json!("ban")));
    assert!((500..600).contains(&bans[0]["expires_in_seconds"].as_u64().unwrap()), "{bans}");
    send();
    let banned = ratelimit.json("status")["reasons"]["banned"]["packets"].clone();
    assert_eq!(banned, 10, "{}", ratelimit.json("status")["reasons"]);
    daemon.end();
    ratelimit.ok("detach --all");

    // Behind cells, a debt that may be a neighbour's bans nobody. So the source would need half of its burst first.
    folder.write(&file(&state, &format!("[settings]\nfront = false\n{with_ban}")));
    let (daemon, line) = start(&sandbox, &ratelimit, &folder);
    assert!(line.ends_with("restored debts: 1, bans: 1"), "{line}");
    ratelimit.ok("deny del 10.9.0.66");
    send();
    let left = ratelimit.json("deny list")[0]["expires_in_seconds"].as_u64().unwrap();
    assert!((1_100..=1_200).contains(&left), "{left}");
    daemon.end();
    ratelimit.ok("detach --all");

    // An allow wins.
    folder.write(&file(&state, &format!("allow = [\"10.9.0.66\"]\n{with_ban}")));
    let (daemon, _) = start(&sandbox, &ratelimit, &folder);
    assert_eq!(passing(&sandbox, &ratelimit, [10, 9, 0, 66], 9, 10), 10);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn of_very_many_debts_the_longest_are_kept() {
    const SOURCES: u32 = 120_000;
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, state) = folder();
    let settings = "[settings]\nfront = false\nmax-sources = 400000\n";
    folder.write(&file(&state, &format!("{settings}{LIMITS}[[rule]]\nsource = \"10.8.0.1\"\npackets = \"1/d\"\n")));
    let (mut daemon, _) = start(&sandbox, &ratelimit, &folder);
    Flood::of(Frame::udp([10, 16, 0, 0], 9)).sources(SOURCES).send(&sandbox, u64::from(SOURCES));
    assert_eq!(passing(&sandbox, &ratelimit, [10, 8, 0, 1], 9, 20), 1);
    daemon.process.signal(Signal::TERM);
    let line = daemon.line();
    assert_eq!(line, "ratelimit: the state has the longest debts only: 20001 are left out");
    daemon.end();
    assert!(fs::read_to_string(&state).unwrap().lines().nth(1).unwrap().contains("10.8.0.1"));
    ratelimit.ok("detach --all");
    let (daemon, line) = start(&sandbox, &ratelimit, &folder);
    assert!(line.ends_with("restored debts: 100000, bans: 0"), "{line}");
    let (now, most) = memory(&daemon);
    assert!(now < 15_000 && most < 46_000, "{now} kB, at most {most} kB");
    daemon.end();
    ratelimit.ok("detach --all");
    // A smaller instance keeps the longest one too.
    let settings = settings.replace("400000", "1000");
    folder.write(&file(&state, &format!("{settings}{LIMITS}[[rule]]\nsource = \"10.8.0.1\"\npackets = \"1/d\"\n")));
    let (daemon, line) = start(&sandbox, &ratelimit, &folder);
    assert!(line.ends_with("restored debts: 1000, bans: 0, left out: 99000"), "{line}");
    assert_eq!(passing(&sandbox, &ratelimit, [10, 8, 0, 1], 9, 20), 0);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_snapshot_outlasts_a_killed_daemon() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, state) = folder();
    folder.write(&(file(&state, LIMITS) + "interval = \"1s\"\n"));
    let (daemon, _) = start(&sandbox, &ratelimit, &folder);
    assert_eq!(passing(&sandbox, &ratelimit, [10, 9, 0, 66], 9, 20), 6);
    while !fs::read_to_string(&state).is_ok_and(|text| text.contains("10.9.0.66")) {
        thread::sleep(Duration::from_millis(50));
    }
    daemon.process.signal(Signal::KILL);
    drop(daemon);
    ratelimit.ok("detach --all");
    let (daemon, line) = start(&sandbox, &ratelimit, &folder);
    assert!(line.ends_with("restored debts: 1, bans: 0"), "{line}");
    assert_eq!(passing(&sandbox, &ratelimit, [10, 9, 0, 66], 9, 20), 0);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn no_ban_is_restored_that_would_block_a_session() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, state) = folder();
    let limit = "[default]\npackets = \"1000/s\"\nburst = 100\n";
    folder.write(&file(&state, &format!("{limit}ban = \"10m\"\n")));
    let (daemon, _) = start(&sandbox, &ratelimit, &folder);
    for last in [66, 67] {
        Flood::of(Frame::udp([10, 9, 0, last], 9)).send(&sandbox, 5_000);
    }
    assert_eq!(ratelimit.json("deny list")[0]["source"], "10.9.0.66");
    daemon.end();
    let saved = fs::read(&state).unwrap();
    // A limit with a ban would be refused itself.
    folder.write(&file(&state, limit));
    for (options, restored) in [("--no-allow-ssh", 1), ("", 2), ("--force", 2)] {
        ratelimit.ok("detach --all");
        fs::write(&state, &saved).unwrap();
        let mut command = ratelimit.command(&format!("run -c {} {options}", folder.file().display()));
        command.env("SSH_CONNECTION", "10.9.0.66 50000 10.9.0.1 22");
        let mut daemon = Daemon::by(&sandbox, command);
        let line = daemon.line();
        assert!(line.contains(&format!("restored debts: 0, bans: {restored}")), "{options}: {line}");
        // The bans of other sources stay.
        assert_eq!(line.contains("; refused bans: 1: "), restored == 1, "{line}");
        let bans = ratelimit.json("deny list").as_array().unwrap().len();
        assert_eq!((bans, line.contains("10.9.0.66 allowed")), (restored, options.is_empty()), "{line}");
        daemon.end();
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_running_instance_stays_as_it_is() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, state) = folder();
    folder.write(&file(&state, LIMITS));
    let (daemon, _) = start(&sandbox, &ratelimit, &folder);
    assert_eq!(passing(&sandbox, &ratelimit, [10, 9, 0, 66], 9, 20), 6);
    daemon.end();
    let old = fs::read(&state).unwrap();
    ratelimit.ok("detach --all");
    ratelimit.ok("attach eth0");
    let (daemon, line) = start(&sandbox, &ratelimit, &folder);
    assert!(line.ends_with("rules: 2 set, 0 deleted, 0 unchanged"), "{line}");
    assert_eq!(passing(&sandbox, &ratelimit, [10, 9, 0, 66], 9, 20), 6);
    // Without an instance, the daemon leaves the file as it is.
    fs::write(&state, &old).unwrap();
    ratelimit.ok("detach --all");
    daemon.end();
    assert_eq!(fs::read(&state).unwrap(), old);
}
