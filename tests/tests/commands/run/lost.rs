//! Interfaces that a configuration file lists and that are deleted, renamed and created again, whoever attached them.

use std::fs;

use ratelimit_tests::{Daemon, Flood, Folder, Frame, PEER_IPV4, Ratelimit, Sandbox, wait_until};
use rustix::process::Signal;

const LIMIT: &str = "[default]\npackets = \"10/d\"\n";

fn make(sandbox: &Sandbox, name: &str) {
    sandbox.ip(&format!("link add {name} type veth"));
}

fn delete(sandbox: &Sandbox, name: &str) {
    sandbox.ip(&format!("link del {name}"));
}

/// Returns the interfaces with their mode and owner, in order.
fn attached(ratelimit: &Ratelimit<'_>) -> Vec<String> {
    let status = ratelimit.json("status");
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let row = |row| format!("{} {} {}", text(row, "name"), text(row, "mode"), text(row, "origin"));
    let mut rows: Vec<String> = status["interfaces"].as_array().unwrap().iter().map(row).collect();
    rows.sort();
    rows
}

/// Returns a file that lists these interfaces.
fn listing(names: &[&str]) -> String {
    format!("interfaces = {names:?}\n{LIMIT}")
}

#[test]
fn an_interface_that_a_command_attached_is_limited_again_when_it_returns() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    ratelimit.ok("attach eth0 --no-allow-ssh");
    folder.write(&listing(&["eth0"]));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    sandbox.renew_link();
    assert_eq!(daemon.line(), "ratelimit: eth0: back again, attached");
    assert_eq!(attached(&ratelimit), ["eth0 native -"]);
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 90);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn an_interface_that_goes_is_told_once_and_every_reader_says_the_same() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    make(&sandbox, "wan0");
    folder.write(&listing(&["eth0", "wan0"]));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    delete(&sandbox, "wan0");
    let gone = "ratelimit: wan0: gone, and not limited any more: the daemon attaches to it when it is back";
    assert_eq!(daemon.gone_line(), gone);
    let file = folder.file().display().to_string();
    let status = ratelimit.ok("status");
    let lines: Vec<&str> = status.lines().filter(|line| line.contains("wan0")).collect();
    let expected = [
        "wan0: no longer attached, because the interface was deleted or its program replaced".to_owned(),
        format!("degraded: wan0, which {file} lists, does not exist: the daemon attaches to it when it appears"),
    ];
    assert_eq!(lines, expected, "{status}");
    let doctor = ratelimit.run("doctor").stdout;
    assert!(doctor.contains("wan0, instance: no longer attached") && !doctor.contains("detach wan0"), "{doctor}");
    assert!(doctor.contains("If it comes back, the daemon attaches to it within a second."), "{doctor}");
    let metrics = crate::metrics::scrape(&ratelimit);
    assert_eq!(metrics["ratelimit_config_interface_attached{interface=\"wan0\"}"], 0.0);
    // Other interfaces that come and go do not repeat it.
    for _ in 0..3 {
        make(&sandbox, "lan0");
        delete(&sandbox, "lan0");
    }
    make(&sandbox, "wan0");
    assert_eq!(daemon.any_line(), "ratelimit: wan0: back again, attached");
    assert!(!ratelimit.ok("status").contains("degraded"));
    // It is told again when it goes again. Without a daemon, a command attaches it.
    delete(&sandbox, "wan0");
    assert_eq!(daemon.gone_line(), gone);
    daemon.end();
    let status = ratelimit.ok("status");
    let advice = "its program replaced: run `ratelimit detach wan0`, or attach to it when it is back\n";
    assert!(status.contains(advice), "{status}");
    assert!(ratelimit.run("doctor").stdout.contains("fix: ratelimit detach wan0\n"));
    make(&sandbox, "wan0");
    let status = ratelimit.ok("status");
    assert!(status.contains("its program replaced: run `ratelimit attach wan0` again\n"), "{status}");
    assert!(ratelimit.run("doctor").stdout.contains("fix: ratelimit attach wan0\n"));
    ratelimit.ok("attach wan0");
    assert_eq!(attached(&ratelimit), ["eth0 native config", "wan0 native -"]);
    ratelimit.ok("detach --all");
}

#[test]
fn an_interface_returns_with_the_shadow_of_the_present_file() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    make(&sandbox, "wan0");
    let file = |shadow| format!("{}[interface.wan0]\nshadow = {shadow}\n", listing(&["eth0", "wan0"]));
    folder.write(&file(true));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let shadow = || ratelimit.json("status")["interfaces"][1]["shadow"].clone();
    assert_eq!(shadow(), true);
    delete(&sandbox, "wan0");
    folder.write(&file(false));
    daemon.line();
    make(&sandbox, "wan0");
    assert_eq!(daemon.line(), "ratelimit: wan0: appeared, attached");
    assert!(shadow().is_null());
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn it_keeps_its_mode_and_owner_and_is_not_forgotten_by_other_attaches() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    for name in ["wan0", "wan1", "wan2", "wan3"] {
        make(&sandbox, name);
    }
    ratelimit.ok("attach wan0 --mode generic");
    ratelimit.ok("attach wan1 wan3");
    folder.write(&listing(&["wan0", "wan1"]));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    delete(&sandbox, "wan0");
    delete(&sandbox, "wan3");
    // An attach removes the pins of deleted interfaces, except those that the file lists.
    ratelimit.ok("attach wan2");
    assert_eq!(attached(&ratelimit), ["wan0 - -", "wan1 native -", "wan2 native -"]);
    make(&sandbox, "wan0");
    assert!(daemon.line().starts_with("ratelimit: wan0: back again, attached; wan0: joined packets count as one: "));
    assert_eq!(attached(&ratelimit), ["wan0 generic -", "wan1 native -", "wan2 native -"]);
    // The file does not list this one.
    make(&sandbox, "wan3");
    // A command detaches an interface on purpose, before it is deleted or afterwards.
    ratelimit.ok("detach wan1");
    delete(&sandbox, "wan1");
    make(&sandbox, "wan1");
    delete(&sandbox, "wan0");
    ratelimit.ok("detach wan0");
    make(&sandbox, "wan0");
    // The next line is about the file. So nothing was attached until then.
    folder.write(&listing(&["wan2"]));
    assert!(daemon.line().ends_with(": reloaded, rules: 0 set, 0 deleted, 1 unchanged"));
    assert_eq!(attached(&ratelimit), ["wan2 native -"]);
    // The file does not list these any more, and has not attached them.
    folder.write(&listing(&[]));
    daemon.line();
    assert_eq!(attached(&ratelimit), ["wan2 native -"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn an_interface_attached_by_a_command_after_the_last_reload_is_limited_again() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    make(&sandbox, "wan0");
    make(&sandbox, "wan1");
    folder.write(&listing(&["wan0", "eth0"]));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    ratelimit.ok("detach wan0");
    ratelimit.ok("attach wan0");
    assert_eq!(attached(&ratelimit), ["eth0 native config", "wan0 native -"]);
    delete(&sandbox, "wan0");
    make(&sandbox, "wan0");
    assert_eq!(daemon.line(), "ratelimit: wan0: back again, attached");
    assert_eq!(attached(&ratelimit), ["eth0 native config", "wan0 native -"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_renamed_interface_is_limited_again_under_the_name_in_the_file() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    make(&sandbox, "wan0");
    folder.write(&listing(&["wan0"]));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    // The file follows the new name. Nothing has to be attached.
    sandbox.ip("link set wan0 name lan0");
    assert_eq!(attached(&ratelimit), ["lan0 native config"]);
    folder.write(&listing(&["lan0"]));
    assert!(daemon.line().ends_with("0 deleted, 1 unchanged"));
    delete(&sandbox, "lan0");
    make(&sandbox, "lan0");
    assert_eq!(daemon.line(), "ratelimit: lan0: back again, attached");
    assert_eq!(attached(&ratelimit), ["lan0 native config"]);

    // Another interface gets the name in the file, while the first one still carries the program.
    sandbox.ip("link set lan0 name old0");
    make(&sandbox, "new0");
    sandbox.ip("link set new0 name lan0");
    assert_eq!(daemon.line(), "ratelimit: lan0: back again, attached");
    assert_eq!(attached(&ratelimit), ["lan0 native config", "old0 native config"]);
    // A reload detaches the one that the file does not list.
    assert!(ratelimit.ok("reload").ends_with("; detached from old0\n"));
    daemon.line();

    // The renamed interface is deleted before another one gets its name.
    sandbox.ip("link set lan0 name old1");
    delete(&sandbox, "old1");
    make(&sandbox, "lan0");
    assert_eq!(daemon.line(), "ratelimit: lan0: back again, attached");
    assert_eq!(attached(&ratelimit), ["lan0 native config"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn two_interfaces_that_swap_names_are_limited_again_under_their_new_names() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    make(&sandbox, "wan0");
    make(&sandbox, "wan1");
    ratelimit.ok("attach wan0 --mode generic");
    ratelimit.ok("attach wan1");
    folder.write(&listing(&["wan0", "wan1"]));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    for names in ["wan0 name spare", "wan1 name wan0", "spare name wan1"] {
        sandbox.ip(&format!("link set {names}"));
    }
    assert_eq!(attached(&ratelimit), ["wan0 native -", "wan1 generic -"]);
    // The daemon records the new names.
    let recorded = || sandbox.pins().iter().any(|pin| pin.to_string_lossy().contains("/links/wan1@listed-generic-"));
    wait_until("recorded", recorded);
    delete(&sandbox, "wan0");
    make(&sandbox, "wan0");
    assert_eq!(daemon.line(), "ratelimit: wan0: back again, attached");
    assert_eq!(attached(&ratelimit), ["wan0 native -", "wan1 generic -"]);
    delete(&sandbox, "wan1");
    make(&sandbox, "wan1");
    assert!(daemon.line().starts_with("ratelimit: wan1: back again, attached; wan1: joined packets count as one: "));
    assert_eq!(attached(&ratelimit), ["wan0 native -", "wan1 generic -"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn an_interface_whose_return_the_kernel_could_not_report_is_limited_again() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    make(&sandbox, "wan0");
    folder.write(&listing(&["wan0"]));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let lost = || {
        let sockets = sandbox.victim(|| fs::read_to_string("/proc/thread-self/net/netlink").unwrap());
        let row = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        // rtnetlink, and the group of interfaces.
        let watches = |row: &Vec<String>| row[1] == "0" && row[3] == "00000001";
        let watch = sockets.lines().map(row).find(watches).unwrap();
        watch[8].parse::<u64>().unwrap()
    };
    assert_eq!(lost(), 0);
    // Reports fill the queue of a daemon that does not read them. So the return of the interface has no place.
    daemon.process.signal(Signal::STOP);
    let changes: String = (1..2_000).map(|length| format!("link set lo txqueuelen {length}\n")).collect();
    let batch = folder.file().with_file_name("changes");
    fs::write(&batch, changes).unwrap();
    sandbox.ip(&format!("-batch {}", batch.display()));
    assert!(lost() > 0);
    delete(&sandbox, "wan0");
    make(&sandbox, "wan0");
    assert_eq!(attached(&ratelimit), ["wan0 - config"]);
    daemon.process.signal(Signal::CONT);
    assert_eq!(daemon.line(), "ratelimit: wan0: back again, attached");
    assert_eq!(attached(&ratelimit), ["wan0 native config"]);
    daemon.end();
    ratelimit.ok("detach --all");
}
