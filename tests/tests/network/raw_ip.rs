//! Interfaces without Ethernet headers, beside one that has them.

use std::{env, net::IpAddr, path::PathBuf, process::Command};

use aya::programs::loaded_programs;
use ratelimit_tests::{Daemon, Flood, Folder, Frame, Namespace, Ratelimit, Sandbox, Tun, VICTIM_LINK};
use serde_json::Value;

use crate::receiver::{FLOODER, PORT, receiving};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

const DENIED: [&str; 2] = ["10.8.0.66", "2001:db8:66::1"];

/// Returns an IP packet.
fn packet(source: &str) -> Vec<u8> {
    Frame::udp(source.parse::<IpAddr>().unwrap(), PORT).bytes()[ETHERNET..].to_vec()
}

fn counted(ratelimit: &Ratelimit<'_>, reason: &str) -> u64 {
    ratelimit.json("status")["reasons"][reason]["packets"].as_u64().unwrap()
}

/// Returns the names of the programs on these interfaces.
pub(crate) fn programs(ratelimit: &Ratelimit<'_>, interfaces: &[&str]) -> Vec<String> {
    let status = ratelimit.json("status");
    let rows = status["interfaces"].as_array().unwrap();
    let id = |name: &&str| rows.iter().find(|row| row["name"] == *name).and_then(|row| row["program_id"].as_u64());
    let loaded: Vec<_> = loaded_programs().flatten().collect();
    let name = |id: u64| loaded.iter().find(|program| u64::from(program.id()) == id);
    let name = |id| name(id).and_then(|program| program.name_as_str().map(str::to_owned));
    interfaces.iter().map(|interface| id(interface).and_then(name).unwrap_or_default()).collect()
}

/// Checks that packets of denied sources are denied on this interface, and count as nothing else.
#[track_caller]
fn assert_denied(ratelimit: &Ratelimit<'_>, tun: &Tun, when: &str) {
    let before = ratelimit.json("status")["reasons"].clone();
    for source in DENIED {
        tun.receive(&packet(source), 5);
    }
    let after = ratelimit.json("status")["reasons"].clone();
    for (reason, count) in after.as_object().unwrap() {
        let new = count["packets"].as_u64().unwrap() - before[reason]["packets"].as_u64().unwrap();
        assert_eq!(new, if reason == "denied" { 10 } else { 0 }, "{when}: {reason}");
    }
}

fn has_raw_program(sandbox: &Sandbox) -> bool {
    sandbox.pins().iter().any(|pin| pin.ends_with("program_raw"))
}

fn deny(ratelimit: &Ratelimit<'_>) {
    for source in DENIED {
        ratelimit.ok(&format!("deny add {source}"));
    }
}

#[test]
fn rules_and_limits_hold_on_interfaces_with_and_without_ethernet_headers() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let tun = Tun::new(&sandbox, "tun0");
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1/h --burst 15 --sample off"));
    ratelimit.ok("attach tun0 --mode generic");
    deny(&ratelimit);
    let ((), received) = receiving(&sandbox, |_| {
        for source in DENIED {
            tun.receive(&packet(source), 50);
        }
        tun.receive(&packet(&FLOODER.to_string()), 10);
        Flood::of(Frame::udp(FLOODER, PORT)).send(&sandbox, 10);
    });
    for source in DENIED {
        assert_eq!(received.from(source.parse::<IpAddr>().unwrap()).count, 0, "{source}");
    }
    assert_eq!(received.from(FLOODER).count, 15);
    let reasons = &ratelimit.json("status")["reasons"];
    let packets = |reason: &str| reasons[reason]["packets"].as_u64().unwrap();
    assert_eq!(["denied", "within-limit", "over-packets"].map(packets), [100, 15, 5]);
    assert_eq!(["not-ip", "malformed", "truncated", "unreadable"].map(packets), [0; 4]);
    ratelimit.ok("detach --all");
}

/// The kernel takes both tags of priority 3 away, since they name no network.
#[test]
fn a_denied_source_does_not_hide_behind_tags() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let tun = Tun::typed(&sandbox, "tun0");
    let hidden = |source: &str| [&[0x60, 0, 0x81, 0, 0, 0, 0x08, 0][..], &packet(source)].concat();
    let arrived = |source: &str, count| {
        let ((), received) = receiving(&sandbox, |_| tun.receive_typed(0x8100, &hidden(source), count));
        received.from(source.parse::<IpAddr>().unwrap()).count
    };
    assert_eq!(arrived(DENIED[0], 10), 10, "the kernel does not take the tags away");
    ratelimit.ok("attach tun0 --mode generic");
    deny(&ratelimit);
    assert_eq!(arrived(DENIED[0], 50), 0);
    assert_eq!(counted(&ratelimit, "malformed"), 50);
    ratelimit.ok("detach --all");
}

/// Each of these commands replaces the program on every link.
#[test]
fn every_change_of_a_running_instance_keeps_the_right_program_on_each_interface() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let tun = Tun::new(&sandbox, "tun0");
    ratelimit.ok(&format!("attach {VICTIM_LINK}"));
    deny(&ratelimit);
    ratelimit.ok("attach tun0 --mode generic");
    assert_denied(&ratelimit, &tun, "attach");
    let names = || programs(&ratelimit, &[VICTIM_LINK, "tun0"]);
    for command in [
        "limit set default --packets 5/s --service tcp/443",
        "limit set 10.7.0.0/16 --packets 5/s --algorithm sliding-log",
        "set --max-sources 5000 --cells 4096",
        "attach lo --mode generic",
        "limit del default --service tcp/443",
        "set --malformed pass",
        "detach lo",
        "detach eth0",
        "attach eth0",
    ] {
        ratelimit.ok(command);
        assert_denied(&ratelimit, &tun, command);
        if command != "detach eth0" {
            assert_eq!(names(), ["ratelimit", "ratelimit_raw"], "{command}");
        }
    }
    assert!(has_raw_program(&sandbox));
    ratelimit.ok("detach tun0");
    assert!(!has_raw_program(&sandbox), "the program stays although no interface needs it");
    ratelimit.ok("attach tun0 --mode generic");
    assert_denied(&ratelimit, &tun, "attached again");
    ratelimit.ok("detach --all");
}

#[test]
fn an_upgrade_keeps_the_right_program_on_each_interface() {
    let sandbox = Sandbox::new();
    let (this, other) = (Ratelimit::new(&sandbox), Ratelimit::other(&sandbox));
    let tun = Tun::new(&sandbox, "tun0");
    this.ok(&format!("attach {VICTIM_LINK} tun0 --mode generic"));
    deny(&this);
    for new in [&other, &this] {
        new.ok("upgrade");
        assert_denied(new, &tun, "upgraded");
        assert_eq!(programs(new, &[VICTIM_LINK, "tun0"]), ["ratelimit", "ratelimit_raw"]);
    }
    this.ok("detach --all");
}

/// There, the link type is not visible.
#[test]
fn an_interface_in_another_namespace_keeps_its_program() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let tun = Tun::new(&sandbox, "tun0");
    ratelimit.ok(&format!("attach {VICTIM_LINK} tun0 --mode generic"));
    deny(&ratelimit);
    let elsewhere: Namespace = sandbox.elsewhere();
    sandbox.ip(&format!("link set tun0 netns {}", elsewhere.network_path()));
    let up = elsewhere.run(|| Command::new("ip").args(["link", "set", "tun0", "up"]).status()).unwrap();
    assert!(up.success());
    assert_denied(&ratelimit, &tun, "moved");
    for command in ["limit set default --packets 5/s --service udp/53", "set --max-sources 5000", "detach eth0"] {
        ratelimit.ok(command);
        assert_denied(&ratelimit, &tun, command);
    }
    ratelimit.ok("detach --all");
}

#[test]
fn native_mode_is_refused_without_a_trace_and_auto_becomes_generic() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let tun = Tun::new(&sandbox, "tun0");
    let refused = "ratelimit: tun0: its driver does not support native XDP: try --mode generic (works everywhere, slower) or --mode auto, \
                   or mode = \"auto\" in [interface.tun0] of the file";
    for command in ["attach tun0", "attach tun0 --mode native"] {
        assert_eq!(ratelimit.fails(command), refused);
        assert_eq!(sandbox.pins(), [] as [PathBuf; 0], "{command}");
    }
    ratelimit.ok("attach eth0");
    assert_eq!(ratelimit.fails("attach tun0 --mode native"), refused);
    assert!(!has_raw_program(&sandbox));
    deny(&ratelimit);
    ratelimit.ok("attach tun0 --mode auto");
    assert_eq!(programs(&ratelimit, &[VICTIM_LINK, "tun0"]), ["ratelimit", "ratelimit_raw"]);
    assert_denied(&ratelimit, &tun, "auto");
    ratelimit.ok("detach --all");
    assert_eq!(sandbox.pins(), [] as [PathBuf; 0]);
}

/// The pin of the deleted interface has the same name.
#[test]
fn an_interface_of_another_link_type_under_the_same_name_gets_its_own_program() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    deny(&ratelimit);
    for _ in 0..2 {
        sandbox.ip("link add wan0 type veth peer name far0");
        ratelimit.ok("attach wan0 --mode generic");
        assert_eq!(programs(&ratelimit, &[VICTIM_LINK, "wan0"]), ["ratelimit", "ratelimit"]);
        assert!(!has_raw_program(&sandbox));
        sandbox.ip("link del wan0");
        let tun = Tun::new(&sandbox, "wan0");
        ratelimit.ok("attach wan0 --mode generic");
        assert_eq!(programs(&ratelimit, &[VICTIM_LINK, "wan0"]), ["ratelimit", "ratelimit_raw"]);
        assert_denied(&ratelimit, &tun, "another link type");
        sandbox.ip("link del wan0");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_reload_brings_and_removes_the_second_program() {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let ratelimit = Ratelimit::new(&sandbox);
    let tun = Tun::new(&sandbox, "tun0");
    let rules = DENIED.map(|source| format!("[[rule]]\nsource = \"{source}\"\npolicy = \"deny\"\n")).concat();
    let without = format!("interfaces = [\"eth0\"]\n{rules}");
    let with = format!("interfaces = [\"eth0\", \"tun0\"]\n[interface.tun0]\nmode = \"generic\"\n{rules}");
    folder.write(&without);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    for _ in 0..2 {
        assert!(!has_raw_program(&sandbox));
        folder.write(&with);
        let line = daemon.line();
        assert!(line.ends_with("attached to tun0"), "{line}");
        assert_denied(&ratelimit, &tun, "reloaded");
        folder.write(&without);
        let line = daemon.line();
        assert!(line.ends_with("detached from tun0"), "{line}");
    }
    daemon.end();
    ratelimit.ok("detach --all");
}

/// Kinds that the kernel does not have are left out. Guests have all of them.
#[test]
fn interfaces_with_ethernet_headers_of_any_kind_get_the_program_for_ethernet() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("tuntap add dev tap0 mode tap");
    let mut names = vec!["lo", VICTIM_LINK, "tap0"];
    for (name, how) in [
        ("dummy0", "type dummy"),
        ("vlan0", "link eth0 type vlan id 7"),
        ("bridge0", "type bridge"),
        ("bond0", "type bond"),
        ("macvlan0", "link eth0 type macvlan mode bridge"),
        ("vxlan0", "type vxlan dstport 4789 external"),
    ] {
        let mut command = Command::new("ip");
        command.args(format!("link add name {name} {how}").split_whitespace());
        if sandbox.output(&mut command).status.success() {
            names.push(name);
        } else {
            assert!(env::var_os("RATELIMIT_GUEST").is_none(), "the guest cannot create {name}");
            println!("skipped: {how}: this kernel does not have it");
        }
    }
    // Some are above eth0, whose packets are charged once.
    for name in &names {
        ratelimit.ok(&format!("attach {name} --mode generic"));
        assert_eq!(programs(&ratelimit, &[*name]), ["ratelimit"]);
        assert!(!has_raw_program(&sandbox));
        ratelimit.ok(&format!("detach {name}"));
    }
    ratelimit.ok("detach --all");
}

#[test]
fn interfaces_of_other_link_types_are_refused_before_anything_changes() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let tun = Tun::down(&sandbox, "ib0");
    // InfiniBand.
    tun.set_link_type(32);
    let expected = "ratelimit: ib0: ratelimit cannot read packets of this link type (32, tun): attach an interface with Ethernet headers, or a tun, WireGuard, PPP, IPIP, SIT, ip6tnl or ip6gre interface, or a GRE tunnel with a fixed remote";
    assert_eq!(ratelimit.fails("attach ib0 --mode generic"), expected);
    assert_eq!(ratelimit.fails("attach eth0 ib0 --mode generic"), expected);
    assert_eq!(sandbox.pins(), [] as [PathBuf; 0]);
    ratelimit.ok("attach eth0");
    assert_eq!(ratelimit.fails("attach ib0 --mode generic"), expected);
    assert_eq!(ratelimit.json("status")["interfaces"].as_array().map(Vec::len), Some(1));
    // A tunnel without Ethernet headers whose kind is not known.
    sandbox.ip("link add vx0 type vxlan dstport 4790 gpe external");
    let line = ratelimit.fails("attach vx0 --mode generic");
    assert!(line.contains("vx0: ratelimit cannot read packets of this link type (65534, vxlan)"), "{line}");
    ratelimit.ok("detach --all");
}

/// Limits of bytes count what arrives: there is no Ethernet header.
#[test]
fn bytes_are_those_of_the_ip_packet() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let tun = Tun::new(&sandbox, "tun0");
    ratelimit.ok("attach tun0 --mode generic --packets 1k/s --sample off");
    tun.receive(&packet("10.8.0.1"), 3);
    let reasons: Value = ratelimit.json("status")["reasons"].clone();
    assert_eq!(reasons["within-limit"]["bytes"], 3 * 46);
    assert_eq!(counted(&ratelimit, "within-limit"), 3);
    ratelimit.ok("detach --all");
}
