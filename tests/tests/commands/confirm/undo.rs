//! The undo of an unconfirmed attach: what it restores, and what it keeps.

use std::{fs::File, net::UdpSocket, os::unix::net::UnixDatagram, process::Command, time::Duration};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, PATIENCE, PEER_IPV4, Ratelimit, Sandbox, VICTIM_IPV4, wait_until};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Signal, kill_process},
};
use serde_json::json;

use super::{is_over, waiter};

/// Makes the waiter undo the attach now, and returns afterwards.
fn take_back(sandbox: &Sandbox) {
    kill_process(waiter(sandbox), Signal::TERM).unwrap();
    wait_until("over", || is_over(sandbox));
}

/// Takes the instance lock like a command that never ends.
fn lock(sandbox: &Sandbox) -> File {
    let pins = sandbox.victim(|| File::open("/sys/fs/bpf/ratelimit").unwrap());
    flock(&pins, FlockOperation::LockExclusive).unwrap();
    pins
}

/// Returns whether a packet of the peer arrives.
fn passes(sandbox: &Sandbox) -> bool {
    let victim = sandbox.victim(|| UdpSocket::bind((VICTIM_IPV4, 0)).unwrap());
    victim.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let address = victim.local_addr().unwrap();
    let peer = sandbox.peer(|| UdpSocket::bind((PEER_IPV4, 0)).unwrap());
    peer.send_to(b"let me in", address).unwrap();
    victim.recv(&mut [0; 16]).is_ok()
}

/// Replaces the system log for processes that start in the sandbox later.
fn system_log(sandbox: &Sandbox) -> UnixDatagram {
    let script =
        "mkdir /run/dev && touch /run/dev/null && mount --bind /dev/null /run/dev/null && mount --rbind /run/dev /dev";
    let output = sandbox.output(Command::new("sh").args(["-c", script]));
    assert!(output.status.success(), "{output:?}");
    let log = sandbox.victim(|| UnixDatagram::bind("/dev/log").unwrap());
    log.set_read_timeout(Some(PATIENCE)).unwrap();
    log
}

fn line(log: &UnixDatagram) -> String {
    let mut bytes = [0; 4_096];
    let length = log.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

#[test]
fn the_default_limit_is_restored_whatever_the_order_of_its_parents() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("attach eth0 --packets 1/m --parent all=500k/s --parent /24=20k/s --confirm 1d");
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["parents"], json!(["/24=20k/s", "all=500k/s"]));
    take_back(&sandbox);
    assert_eq!(ratelimit.json("limit list"), json!([]));

    // Values that are read back equal the given ones, even after a cost changed their stored form.
    ratelimit.ok("cost set udp/53 3");
    for limit in [
        "--parent interface=9MB/s --parent /20=20k/s --parent /48=30k/s",
        "--bytes 1MB/s --parent all=500k/s --parent interface=9k/s --over-limit shadow",
        "--packets 10/m,40/h --algorithm sliding-log --over-limit reject --ban 10m",
    ] {
        ratelimit.ok(&format!("attach eth0 {limit} --confirm 1d"));
        take_back(&sandbox);
        assert_eq!(ratelimit.json("limit list"), json!([]), "{limit}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn the_undo_detaches_interfaces_while_another_command_holds_the_lock() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/d --no-allow-ssh --confirm 3s");
    let held = lock(&sandbox);
    wait_until("held", || !passes(&sandbox));
    wait_until("let through", || passes(&sandbox));
    assert!(!sandbox.ip("link show eth0").contains("xdp"));
    // All other steps need the lock.
    assert!(!sandbox.pins().is_empty());
    drop(held);
    wait_until("gone", || sandbox.pins().is_empty());
    wait_until("over", || is_over(&sandbox));
}

#[test]
fn the_undo_waits_for_another_command_and_then_completes() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let log = system_log(&sandbox);
    sandbox.ip("link add eth1 type veth peer name far1");
    ratelimit.ok("attach eth0 --packets 7/s");
    ratelimit.ok("attach eth0 eth1 --packets 8/s --unknown 9k/s --confirm 1d");
    let held = lock(&sandbox);
    kill_process(waiter(&sandbox), Signal::TERM).unwrap();
    wait_until("free", || !sandbox.ip("link show eth1").contains("xdp"));
    let line = line(&log);
    let expected = ": an attach was not confirmed: its interfaces are undone now, and the rest when another command at /sys/fs/bpf/ratelimit ends";
    assert!(line.starts_with("<28>ratelimit[") && line.ends_with(expected), "{line}");
    assert!(sandbox.ip("link show eth0").contains("xdp"));
    assert!(!is_over(&sandbox));
    drop(held);
    wait_until("over", || is_over(&sandbox));
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["packets"][0]["text"], "7/s");
    let status = ratelimit.json("status");
    assert_eq!((status["interfaces"].as_array().unwrap().len(), &status["unknown"]), (1, &json!(null)));
    ratelimit.ok("detach --all");
}

#[test]
fn the_undo_detaches_an_interface_that_a_configuration_file_lists_by_then() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    sandbox.ip("link add eth1 type veth peer name far1");
    ratelimit.ok("attach eth0");
    ratelimit.ok("attach eth1 --confirm 1d");
    folder.write("interfaces = [\"eth0\", \"eth1\"]\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    daemon.end();
    // The daemon has renamed the pin.
    assert!(sandbox.pins().iter().any(|pin| pin.to_string_lossy().contains("/links/eth1@listed-")));
    take_back(&sandbox);
    assert!(!sandbox.ip("link show eth1").contains("xdp"));
    assert_eq!(ratelimit.json("status")["interfaces"].as_array().unwrap().len(), 1);
    ratelimit.ok("detach --all");
}

#[test]
fn the_undo_keeps_settings_that_other_commands_changed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 7/s");
    let shown = || {
        let status = ratelimit.json("status");
        let front = (status["malformed"].clone(), status["sample"].clone(), status["sources"]["max"].clone());
        (front, status["unknown"]["per_second"].clone(), status["replies"]["per_second"].clone())
    };
    let (front, ..) = shown();
    ratelimit.ok("attach eth0 --unknown 1/s --malformed pass --sample off --max-sources 5000 --confirm 1d");
    ratelimit.ok("attach eth0 --replies 50/s");
    take_back(&sandbox);
    assert_eq!(shown(), (front.clone(), json!(null), json!(50)));

    // If both changed a setting, the other command's value stays.
    ratelimit.ok("attach eth0 --unknown 1/s --malformed pass --confirm 1d");
    ratelimit.ok("attach eth0 --unknown 5/s");
    take_back(&sandbox);
    assert_eq!(shown(), (front, json!(5), json!(50)));

    // The program still has what it had learned.
    ratelimit.ok("set --unknown auto");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 1);
    for other in [None, Some("set --replies 60/s")] {
        ratelimit.ok("attach eth0 --unknown 9k/s --confirm 1d");
        other.map(|other| ratelimit.ok(other));
        take_back(&sandbox);
        assert_eq!(ratelimit.json("status")["unknown"]["learned"]["calm_minutes"], 1, "{other:?}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn the_undo_reports_failures_and_undoes_the_rest() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let log = system_log(&sandbox);
    ratelimit.ok("attach eth0 --packets 7/s --throttle elastic --capacity 5k/s");
    ratelimit.ok("attach eth0 --packets 8/s --unknown 9k/s --confirm 1d");
    // The previous default limit uses it.
    ratelimit.ok("attach eth0 --capacity off");
    take_back(&sandbox);
    let line = line(&log);
    let expected = ": an attach was not confirmed, and could not be undone completely: the default limit: no interface has a capacity";
    assert!(line.starts_with("<27>ratelimit[") && line.contains(expected), "{line}");
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["packets"][0]["text"], "8/s");
    assert_eq!(ratelimit.json("status")["unknown"], json!(null));
    ratelimit.ok("detach --all");
}
