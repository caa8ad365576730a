//! The daemon as a systemd service, with the shipped unit.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
};

use ratelimit_tests::{Daemon, Flood, Frame, PEER_IPV4, Ratelimit, Sandbox, Systemd};

use super::watch::{loaded, wait_until_freed};
use crate::{metrics::ask, reload::ssh::log_in};

const UNIT: &str = include_str!("../../../../dist/ratelimit.service");

const FILE: &str = "/etc/ratelimit/ratelimit.toml";

/// Ten packets per source, and almost none later.
const LIMIT: &str = "interfaces = [\"eth0\"]\n[default]\npackets = \"10/d\"\n";

/// Writes the configuration file of the service.
fn write(sandbox: &Sandbox, text: &str) {
    sandbox.victim(|| fs::write("/run/etc/ratelimit/ratelimit.toml", text).unwrap());
}

/// Sends a hundred packets from this source and returns how many were dropped.
fn dropped(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, source: Ipv4Addr) -> u64 {
    let count = || ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
    let before = count();
    Flood::of(Frame::udp(source, 9)).send(sandbox, 100);
    count() - before
}

#[test]
fn the_unit_starts_reloads_fails_and_stops_and_limits_stay() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let systemd = Systemd::start(&sandbox, &ratelimit, UNIT);
    write(&sandbox, LIMIT);
    assert_eq!(systemd.ok("systemd-analyze verify /run/units/ratelimit.service"), "");
    systemd.ok("systemd-analyze security --offline=true --threshold=20 /run/units/ratelimit.service");

    // When start returns, the file is applied.
    systemd.ok("systemctl start ratelimit");
    assert_eq!(dropped(&sandbox, &ratelimit, PEER_IPV4), 90);
    assert_eq!(systemd.show("StatusText"), format!("{FILE} in force, rules: 1"));
    assert_eq!(systemd.show("ActiveState"), "active");

    // The same holds for reload.
    write(&sandbox, &format!("{LIMIT}[[rule]]\nsource = \"10.1.0.0/16\"\npolicy = \"deny\"\n"));
    systemd.ok("systemctl reload ratelimit");
    assert_eq!(dropped(&sandbox, &ratelimit, Ipv4Addr::new(10, 1, 0, 1)), 100);
    assert_eq!(systemd.show("StatusText"), format!("{FILE} in force, rules: 2"));

    // The unit permits everything that a file can require of the program and its maps.
    write(
        &sandbox,
        &format!(
            "{LIMIT}[interface.eth0]\ncapacity = \"9k/s\"\n[settings]\nunknown = \"9k/s\"\nmax-sources = 5000\n\
             [[rule]]\nsource = \"10.1.0.0/16\"\npolicy = \"deny\"\n\
             [[rule]]\nsource = \"10.3.0.0/16\"\npackets = \"5/m\"\nalgorithm = \"sliding-log\"\nover-limit = \"reject\"\n\
             [[rule]]\nsource = \"10.4.0.0/16\"\npackets = \"5/s\"\nthrottle = \"elastic\"\nparent = \"all=9/s\"\n"
        ),
    );
    systemd.ok("systemctl reload ratelimit");
    assert_eq!(dropped(&sandbox, &ratelimit, Ipv4Addr::new(10, 3, 0, 1)), 95);

    // Metrics are open to every user of this machine.
    write(&sandbox, &format!("{LIMIT}[metrics]\nlisten = \"127.0.0.1:9464\"\n"));
    systemd.ok("systemctl reload ratelimit");
    let answer = ask(&sandbox, "127.0.0.1:9464", "GET /metrics HTTP/1.0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 200 OK"), "{answer}");
    write(&sandbox, &format!("{LIMIT}[[rule]]\nsource = \"10.1.0.0/16\"\npolicy = \"deny\"\n"));
    systemd.ok("systemctl reload ratelimit");

    // systemctl, the status and the journal report a failed reload. Nothing else changes.
    write(&sandbox, "interfaces = 1\nlimits = 2\n");
    let (is_good, _) = systemd.run("systemctl reload ratelimit");
    assert!(!is_good);
    assert_eq!(systemd.show("ActiveState"), "active");
    let problem = format!("{FILE}:2:1: limits: unknown key");
    let status = systemd.show("StatusText");
    assert!(status.starts_with(&format!("reload failed, the previous rules stay in force: {problem}")), "{status}");
    let journal = systemd.journal();
    let has = |priority: &str, text: &str| journal.iter().any(|(of, line)| of == priority && line.starts_with(text));
    assert!(has("6", &format!("ratelimit: {FILE}: in force, rules: 1 set")), "{journal:?}");
    assert!(has("3", &format!("ratelimit: nothing was changed: {problem}")), "{journal:?}");
    assert_eq!(dropped(&sandbox, &ratelimit, Ipv4Addr::new(10, 1, 0, 2)), 100);

    // The limits stay after a stop, and the next start finds them.
    systemd.ok("systemctl stop ratelimit");
    assert_eq!(systemd.show("Result"), "success");
    assert_eq!(sandbox.victim(|| fs::read_dir("/run/ratelimit").unwrap().count()), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, Ipv4Addr::new(10, 2, 0, 1)), 90);
    let (is_good, _) = systemd.run("systemctl start ratelimit");
    assert!(!is_good);
    write(&sandbox, LIMIT);
    systemd.ok("systemctl start ratelimit");
    assert_eq!(dropped(&sandbox, &ratelimit, PEER_IPV4), 100);
    assert_eq!(dropped(&sandbox, &ratelimit, Ipv4Addr::new(10, 1, 0, 3)), 90);
    systemd.ok("systemctl stop ratelimit");
    ratelimit.ok("detach --all");
}

#[test]
fn a_file_that_blocks_a_logged_in_session_is_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    log_in(&sandbox, "1", "10.9.0.5", "active");
    let systemd = Systemd::start(&sandbox, &ratelimit, UNIT);
    write(&sandbox, "interfaces = [\"eth0\"]\n");
    systemd.ok("systemctl start ratelimit");
    assert_eq!(ratelimit.json("allow list")[0]["source"], "10.9.0.5");
    log_in(&sandbox, "2", "10.9.0.6", "active");
    write(&sandbox, "interfaces = [\"eth0\"]\n[[rule]]\nsource = \"0.0.0.0/0\"\npolicy = \"deny\"\n");
    let (is_good, _) = systemd.run("systemctl reload ratelimit");
    assert!(!is_good);
    let status = systemd.show("StatusText");
    let why = "an SSH session comes from 10.9.0.6, which would be denied by the rule for 0.0.0.0/0: `ratelimit reload --force`";
    assert!(status.contains(why), "{status}");
    assert_eq!(ratelimit.json("deny list"), serde_json::json!([]));
    ratelimit.ok("reload --force");
    assert_eq!(ratelimit.json("deny list")[0]["source"], "0.0.0.0/0");
    // The daemon follows events for the journal and holds no map of the instance by that.
    let (program, maps) = loaded(&ratelimit);
    ratelimit.ok("detach --all");
    wait_until_freed(program, &maps);
    systemd.ok("systemctl stop ratelimit");
}

#[test]
fn the_unit_upgrades_an_instance_of_another_version() {
    let sandbox = Sandbox::new();
    let (ratelimit, other) = (Ratelimit::new(&sandbox), Ratelimit::other(&sandbox));
    other.ok("attach eth0 --packets 10/d");
    assert_eq!(dropped(&sandbox, &other, PEER_IPV4), 90);
    let systemd = Systemd::start(&sandbox, &ratelimit, UNIT);
    write(&sandbox, LIMIT);
    systemd.ok("systemctl start ratelimit");
    assert_eq!(systemd.show("NRestarts"), "0");
    assert_eq!(dropped(&sandbox, &ratelimit, PEER_IPV4), 100);
    systemd.ok("systemctl stop ratelimit");
    ratelimit.ok("detach --all");
}

#[test]
fn a_unit_that_starts_beside_a_daemon_leaves_its_sockets() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let systemd = Systemd::start(&sandbox, &ratelimit, UNIT);
    write(&sandbox, LIMIT);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, Path::new("/run/etc/ratelimit/ratelimit.toml"));
    daemon.line();
    let (is_good, _) = systemd.run("systemctl start ratelimit");
    assert!(!is_good);
    systemd.ok("systemctl stop ratelimit");
    let reloaded = ratelimit.ok("reload");
    assert!(reloaded.contains("reloaded, rules: 0 set"), "{reloaded}");
    daemon.line();
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_file_that_the_unit_may_not_read_is_named_with_the_reason() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let systemd = Systemd::start(&sandbox, &ratelimit, UNIT);
    write(&sandbox, LIMIT);
    let file = Path::new("/run/etc/ratelimit/ratelimit.toml");
    sandbox.victim(|| {
        chown(file, Some(65_534), None).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    });
    let (is_good, _) = systemd.run("systemctl start ratelimit");
    assert!(!is_good);
    let why = format!(
        "ratelimit: {FILE}: Permission denied (os error 13): the daemon may read only what root or its group may read: give the file and its folders to root with chown"
    );
    let journal = systemd.journal();
    assert!(journal.iter().any(|(_, line)| *line == why), "{journal:?}");
    systemd.ok("systemctl stop ratelimit");
    sandbox.victim(|| chown(file, Some(0), None).unwrap());
    systemd.ok("systemctl start ratelimit");
    systemd.ok("systemctl stop ratelimit");
    // The same holds for the folder of the file.
    let folder = file.parent().unwrap();
    sandbox.victim(|| {
        chown(folder, Some(65_534), None).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    });
    let (is_good, _) = systemd.run("systemctl start ratelimit");
    assert!(!is_good);
    let journal = systemd.journal();
    let why = why.replace("/ratelimit.toml", "");
    assert!(journal.iter().any(|(_, line)| *line == why), "{journal:?}");
    sandbox.victim(|| chown(folder, Some(0), None).unwrap());
    ratelimit.ok("detach --all");
}

#[test]
fn a_daemon_whose_version_is_not_in_force_says_so_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let (ratelimit, other) = (Ratelimit::new(&sandbox), Ratelimit::other(&sandbox));
    let systemd = Systemd::start(&sandbox, &ratelimit, UNIT);
    write(&sandbox, LIMIT);
    systemd.ok("systemctl start ratelimit");
    assert_eq!(dropped(&sandbox, &ratelimit, PEER_IPV4), 90);
    other.ok("upgrade");
    write(&sandbox, &LIMIT.replace("10/d", "20/d"));
    let (is_good, _) = systemd.run("systemctl reload ratelimit");
    assert!(!is_good);
    let why = "another version of ratelimit is in force, and this daemon changes nothing: restart it";
    let status = systemd.show("StatusText");
    assert!(status.starts_with("reload failed") && status.contains(why), "{status}");
    assert_eq!(other.json("limit list")[0]["policy"]["packets"][0]["text"], "10/d");
    assert_eq!(dropped(&sandbox, &other, PEER_IPV4), 100);
    // A restart takes over.
    systemd.ok("systemctl restart ratelimit");
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["packets"][0]["text"], "20/d");
    systemd.ok("systemctl stop ratelimit");
    ratelimit.ok("detach --all");
}

#[test]
fn a_pending_confirm_survives_the_end_of_the_daemon() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let systemd = Systemd::start(&sandbox, &ratelimit, UNIT);
    write(&sandbox, LIMIT);
    systemd.ok("systemctl start ratelimit");
    sandbox.ip("link add eth1 type veth peer name far1");
    ratelimit.ok("attach eth1 --confirm 1d");
    systemd.ok("systemctl stop ratelimit");
    assert_eq!(sandbox.victim(|| fs::read_dir("/run/ratelimit").unwrap().count()), 0);
    assert!(ratelimit.fails("attach eth1 --confirm 1d").contains("another attach waits for its confirmation"));
    assert_eq!(ratelimit.ok("confirm"), "confirmed: the changes of `attach` stay\n");
    assert_eq!(ratelimit.json("status")["interfaces"].as_array().unwrap().len(), 2);
    ratelimit.ok("detach --all");
}

#[test]
fn systemd_restarts_a_killed_daemon_and_limits_hold_meanwhile() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let systemd = Systemd::start(&sandbox, &ratelimit, &UNIT.replace("RestartSec=5s", "RestartSec=100ms"));
    write(&sandbox, LIMIT);
    systemd.ok("systemctl start ratelimit");
    assert_eq!(dropped(&sandbox, &ratelimit, PEER_IPV4), 90);
    systemd.ok("systemctl kill --signal=KILL ratelimit");
    assert_eq!(dropped(&sandbox, &ratelimit, PEER_IPV4), 100);
    // This command waits until the daemon is restarted.
    while systemd.show("NRestarts") == "0" {
        systemd.ok("systemctl start ratelimit");
    }
    systemd.ok("systemctl start ratelimit");
    systemd.ok("systemctl reload ratelimit");
    assert_eq!(dropped(&sandbox, &ratelimit, PEER_IPV4), 100);
    systemd.ok("systemctl stop ratelimit");
    ratelimit.ok("detach --all");
}

#[test]
fn what_a_source_owes_outlasts_a_reboot_with_the_folder_of_the_unit() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let systemd = Systemd::start(&sandbox, &ratelimit, UNIT);
    write(&sandbox, &format!("{LIMIT}[state]\nfile = \"/var/lib/ratelimit/state\"\n"));
    systemd.ok("systemctl start ratelimit");
    assert_eq!(dropped(&sandbox, &ratelimit, PEER_IPV4), 90);
    systemd.ok("systemctl stop ratelimit");
    ratelimit.ok("detach --all");
    systemd.ok("systemctl start ratelimit");
    assert_eq!(dropped(&sandbox, &ratelimit, PEER_IPV4), 100);
    let journal = systemd.journal();
    assert!(journal.iter().any(|(_, line)| line.ends_with("restored debts: 1, bans: 0")), "{journal:?}");
    systemd.ok("systemctl stop ratelimit");
    ratelimit.ok("detach --all");
}
