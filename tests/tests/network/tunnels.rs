//! Tunnels between the peer and the victim, on kernels that have them: a program at the victim's end sees the inner
//! packets.

use std::{
    env,
    net::{IpAddr, SocketAddr, SocketAddrV4, UdpSocket},
    process::Command,
    time::{Duration, Instant},
};

use ratelimit_tests::{
    PEER_IPV4, PEER_IPV6, Ratelimit, Sandbox, VICTIM_IPV4, VICTIM_IPV6, WIREGUARD_KEYS, set_wireguard,
};

use crate::receiver::{PORT, receiving};

const NAME: &str = "tunnel0";

/// Addresses in the tunnel: the victim's, the denied one of the peer, the other one of the peer.
const V4: [&str; 3] = ["10.8.0.1", "10.8.0.66", "10.8.0.2"];
const V6: [&str; 3] = ["fd00:8::1", "fd00:8:66::66", "fd00:8:2::2"];

/// Returns whether the kernel does not have this kind, by what `ip link add` has said. Guests have all of them.
fn lacks(kind: &str, said: &str) -> bool {
    let lacks = said.contains("Unknown device type") || said.contains("not supported");
    if lacks {
        assert!(env::var_os("RATELIMIT_GUEST").is_none(), "the guest lacks the module for {kind}: {said}");
        println!("skipped: {kind}: this kernel does not have it: {said}");
    }
    lacks
}

/// Creates the same tunnel at both ends. Returns whether the kernel has this kind.
fn connect(sandbox: &Sandbox, kind: &str) -> bool {
    let ends = [[VICTIM_IPV4.to_string(), VICTIM_IPV6.to_string()], [PEER_IPV4.to_string(), PEER_IPV6.to_string()]];
    for (number, [here, there]) in [[0, 1], [1, 0]].into_iter().enumerate() {
        let underlay = usize::from(["ip6tnl", "ip6gre"].contains(&kind));
        let between = match kind {
            "wireguard" => String::new(),
            _ => format!("local {} remote {}", ends[here][underlay], ends[there][underlay]),
        };
        let mode = if kind == "ip6tnl" { "mode any encaplimit none" } else { "" };
        let words = format!("link add {NAME} type {kind} {between} {mode}");
        let ip = |words: &str| {
            let mut command = Command::new("ip");
            command.args(words.split_whitespace());
            let run = || command.output().unwrap();
            if number == 0 { sandbox.victim(run) } else { sandbox.peer(run) }
        };
        let output = ip(&words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if lacks(kind, &said) {
            return false;
        }
        assert!(output.status.success(), "{words}: {said}");
        if kind == "wireguard" {
            let set = || {
                let endpoint = SocketAddrV4::new([VICTIM_IPV4, PEER_IPV4][there], 51_820);
                set_wireguard(NAME, WIREGUARD_KEYS[here][0], 51_820, WIREGUARD_KEYS[there][1], endpoint);
            };
            if number == 0 { sandbox.victim(set) } else { sandbox.peer(set) }
        }
        // Without a link-local address, the system sends no router solicitations, which would be counted.
        ip(&format!("link set {NAME} addrgenmode none"));
        let own = if number == 0 { 0..1 } else { 1..3 };
        for (v4, v6) in V4[own.clone()].iter().zip(&V6[own]) {
            if kind != "sit" {
                ip(&format!("address add {v4}/24 dev {NAME}"));
            }
            ip(&format!("-6 address add {v6}/32 dev {NAME} nodad"));
        }
        assert!(ip(&format!("link set {NAME} up")).status.success());
    }
    true
}

/// Sends datagrams through the tunnel.
fn send(sandbox: &Sandbox, from: &str, to: &str, count: usize) {
    let [from, to] = [from, to].map(|address| address.parse::<IpAddr>().unwrap());
    let socket = sandbox.peer(|| UdpSocket::bind((from, 0))).unwrap();
    for _ in 0..count {
        socket.send_to(&[0; 18], SocketAddr::from((to, PORT))).unwrap();
    }
}

/// Waits until something holds, but no longer than this.
fn wait_for(most: Duration, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() && begin.elapsed() < most {
        std::thread::yield_now();
    }
}

/// Sends through a tunnel of this kind. Denied sources must be denied, and the others be limited.
fn holds(kind: &str) {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    if !connect(&sandbox, kind) {
        return;
    }
    let families: &[[&str; 3]] = match kind {
        "ipip" => &[V4],
        "sit" => &[V6],
        _ => &[V4, V6],
    };
    // The first packets set the tunnel up. They can be lost, or arrive together.
    receiving(&sandbox, |received| {
        for [to, _, from] in families {
            let arrived = || received.from(from.parse::<IpAddr>().unwrap()).count;
            let mut sent = 0;
            while arrived() == 0 {
                assert!(sent < 60, "{kind}: no packet of {from} arrives");
                send(&sandbox, from, to, 1);
                sent += 1;
                wait_for(Duration::from_secs(1), || arrived() == sent);
            }
        }
    });
    ratelimit.ok(&format!("attach {NAME} --mode generic --packets 1/h --burst 5 --sample off"));
    // Both are in networks of the tunnel.
    ratelimit.ok("deny add 10.8.0.66 fd00:8:66::/48 --force");
    let ((), received) = receiving(&sandbox, |received| {
        for [to, denied, limited] in families {
            send(&sandbox, denied, to, 10);
            send(&sandbox, limited, to, 8);
            // A tunnel that encrypts delivers later.
            wait_for(Duration::from_mins(1), || received.from(limited.parse::<IpAddr>().unwrap()).count >= 5);
        }
        let reasons = || ratelimit.json("status")["reasons"].clone();
        let packets = |reason: &serde_json::Value| reason["packets"].as_u64().unwrap();
        let seen = || reasons().as_object().unwrap().values().map(packets).sum::<u64>();
        wait_for(Duration::from_mins(1), || seen() >= 18 * families.len() as u64);
    });
    for [_, denied, limited] in families {
        assert_eq!(received.from(denied.parse::<IpAddr>().unwrap()).count, 0, "{kind}: {denied}");
        assert_eq!(received.from(limited.parse::<IpAddr>().unwrap()).count, 5, "{kind}: {limited}");
    }
    let reasons = &ratelimit.json("status")["reasons"];
    let packets = |reason: &str| reasons[reason]["packets"].as_u64().unwrap();
    let each = families.len() as u64;
    assert_eq!(["denied", "within-limit", "over-packets"].map(packets), [10 * each, 5 * each, 3 * each], "{kind}");
    assert_eq!(["not-ip", "malformed", "truncated", "unreadable"].map(packets), [0; 4], "{kind}");
    ratelimit.ok("detach --all");
    println!("{kind}: the program sees the inner IP header first");
}

#[test]
fn rules_hold_behind_wireguard() {
    holds("wireguard");
}

#[test]
fn rules_hold_behind_ipip() {
    holds("ipip");
}

#[test]
fn rules_hold_behind_sit() {
    holds("sit");
}

#[test]
fn rules_hold_behind_ip6tnl() {
    holds("ip6tnl");
}

#[test]
fn rules_hold_behind_gre() {
    holds("gre");
}

#[test]
fn rules_hold_behind_ip6gre() {
    holds("ip6gre");
}

/// On these, packets begin with another header, or with different ones.
#[test]
fn tunnels_whose_packets_begin_otherwise_are_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    for (kind, options) in [
        ("gre", format!("local {VICTIM_IPV4}")),
        ("gre", "external".to_owned()),
        ("vti", format!("local {VICTIM_IPV4} remote {PEER_IPV4} key 1")),
        ("vti6", format!("local {VICTIM_IPV6} remote {PEER_IPV6} key 1")),
        ("xfrm", "dev eth0 if_id 1".to_owned()),
        ("nlmon", String::new()),
    ] {
        let mut command = Command::new("ip");
        command.args(format!("link add {NAME} type {kind} {options}").split_whitespace());
        let output = sandbox.output(&mut command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if lacks(kind, &said) {
            continue;
        }
        assert!(output.status.success(), "{kind}: {said}");
        let line = ratelimit.fails(&format!("attach {NAME} --mode generic"));
        assert!(line.contains("ratelimit cannot read packets of this link type"), "{kind}: {line}");
        assert!(line.contains(&format!(", {kind})")), "{kind}: {line}");
        println!("{kind} {options}: refused");
        sandbox.ip(&format!("link del {NAME}"));
    }
}
