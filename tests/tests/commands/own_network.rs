//! What this host needs itself is denied by nothing but a deny that an operator forces: commands name what is not applied
//! to it.

use std::fs;

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox, wait_until};
use serde_json::{Value, json};

const GATEWAY: [u8; 4] = [10, 30, 0, 1];
const NAME_SERVER: [u8; 4] = [192, 0, 2, 53];
const ATTACKER: [u8; 4] = [10, 31, 0, 1];

/// Returns a host with an address in 10.30.0.0/24 and in fd00:30::/64, a gateway in each, and a name server elsewhere.
fn host() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ip("address add 10.30.0.2/24 dev eth0");
    sandbox.ip("-6 address add fd00:30::2/64 dev eth0 nodad");
    sandbox.ip("route add 172.31.0.0/16 via 10.30.0.1");
    sandbox.ip("-6 route add fd00:31::/64 via fd00:30::1");
    name_server(&sandbox, NAME_SERVER);
    sandbox
}

fn name_server(sandbox: &Sandbox, [a, b, c, d]: [u8; 4]) {
    sandbox.victim(|| fs::write("/etc/resolv.conf", format!("nameserver {a}.{b}.{c}.{d}\n")).unwrap());
}

/// Returns how many of ten packets from this address were dropped.
fn dropped(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, source: impl Into<std::net::IpAddr>) -> u64 {
    let count = || ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
    let before = count();
    Flood::of(Frame::udp(source.into(), 9)).send(sandbox, 10);
    count() - before
}

/// Returns the sources of places.
fn sources(places: &Value) -> Vec<&str> {
    places.as_array().unwrap().iter().map(|place| place["source"].as_str().unwrap()).collect()
}

#[test]
fn a_list_names_the_entries_that_are_not_applied_and_refuses_the_rest() {
    let sandbox = host();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 5/d");
    let feed = "10.0.0.0/8\n127.0.0.0/8\n192.0.2.0/24\n198.51.100.0/24\nfd00:30::7\n0.0.0.0/8\n";
    let text = ratelimit.ok_with("list set level1 -", feed);
    let ours = "10.0.0.0/8 is not applied to 10.9.0.1 (an address of this host), 10.30.0.0/24 (a connected network), \
                10.30.0.1 (a gateway), 10.30.0.2 (an address of this host)";
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "level1: deny, 6 entries");
    let mut named: Vec<&str> = lines[1..].iter().map(|line| line.trim_start()).collect();
    named.sort_unstable();
    let mut expected = vec![
        "0.0.0.0/8 is not applied to 0.0.0.0 (no address)",
        ours,
        "127.0.0.0/8 is not applied to 127.0.0.0/8 (loopback)",
        "192.0.2.0/24 is not applied to 192.0.2.53 (a name server)",
        "fd00:30::7 is not applied to fd00:30::/64 (a gateway)",
    ];
    expected.sort_unstable();
    assert_eq!(named, expected);
    for words in ["list show level1", "status", "doctor eth0"] {
        let output = ratelimit.run(words);
        assert!(output.stdout.contains(ours), "{words}: {output:?}");
    }
    assert_eq!(ratelimit.json("list show level1")["unapplied"].as_array().unwrap().len(), 5);
    let status = &ratelimit.json("status")["spared"];
    assert_eq!(status["lists"][0]["entries"], 5);
    assert!(sources(&status["prefixes"]).contains(&"192.0.2.53"), "{status}");

    // What is spared has its limit, and all others are refused.
    for spared in [GATEWAY, [10, 30, 0, 77], NAME_SERVER] {
        assert_eq!(dropped(&sandbox, &ratelimit, spared), 5, "{spared:?}");
    }
    for refused in [ATTACKER, [192, 0, 2, 54], [198, 51, 100, 1]] {
        assert_eq!(dropped(&sandbox, &ratelimit, refused), 10, "{refused:?}");
    }
    assert_eq!(dropped(&sandbox, &ratelimit, [0xfd00, 0x30, 0, 0, 0, 0, 0, 7u16]), 5);
    let why = ratelimit.json("why 10.30.0.1");
    assert_eq!(
        (&why["verdict"], &why["spared"]),
        (&json!("limit"), &json!({"source": "10.30.0.1", "why": "a gateway"}))
    );
    assert_eq!(why["outranked"][0]["name"], "level1");
    assert!(ratelimit.ok("why 10.30.0.1").contains("spared:    10.30.0.1 (a gateway): no deny, list or ban"));
    ratelimit.ok("list del level1");
    let good = "nothing denies this host's own network";
    assert!(ratelimit.run("doctor eth0").stdout.contains(good));
    ratelimit.ok("detach --all");
}

#[test]
fn an_operator_denies_what_this_host_needs_only_with_force() {
    let sandbox = host();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for (source, what) in [
        ("10.30.0.1", "a gateway"),
        ("192.0.2.53", "a name server"),
        ("10.30.0.2", "an address of this host"),
        ("10.30.0.77", "within 10.30.0.0/24 (a connected network)"),
        ("10.30.0.0/24", "a connected network"),
        ("127.0.0.1", "within 127.0.0.0/8 (loopback)"),
        ("127.0.0.0/8", "loopback"),
        ("127.8.8.8", "within 127.0.0.0/8 (loopback)"),
        ("0.0.0.0", "no address"),
        ("fe80::1", "within fe80::/10 (link-local)"),
        ("fd00:30::1", "within fd00:30::/64 (a gateway)"),
    ] {
        let output = ratelimit.run(&format!("deny add 203.0.113.9 {source}"));
        let line = format!(
            "ratelimit: {source} is {what}, to which no deny is applied: nothing was changed, --force denies it anyway\n"
        );
        assert_eq!((output.status, output.stderr.as_str()), (2, line.as_str()));
    }
    // Who follows the advice knows what it costs him.
    let mut own = ratelimit.command("deny add 10.30.0.77");
    let output = ratelimit.output(own.env("SSH_CONNECTION", "10.30.0.77 50000 10.30.0.2 22"));
    let end = "--force denies it anyway, and may shut out the SSH session from 10.30.0.77\n";
    assert!(output.status == 2 && output.stderr.ends_with(end), "{output:?}");
    assert_eq!(ratelimit.json("deny list"), json!([]));
    // A wide prefix is denied, and the answer names what is not.
    let wide = ratelimit.ok("deny add 10.0.0.0/8");
    assert!(wide.starts_with("10.0.0.0/8: deny\n  10.0.0.0/8 is not applied to 10.9.0.1 (an address"), "{wide}");
    let row = ratelimit.json("deny add 10.0.0.0/8");
    assert_eq!(sources(&row["not_applied_to"]), ["10.9.0.1", "10.30.0.0/24", "10.30.0.1", "10.30.0.2"]);
    assert_eq!(dropped(&sandbox, &ratelimit, GATEWAY), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, ATTACKER), 10);
    for words in ["status", "doctor eth0"] {
        assert!(ratelimit.run(words).stdout.contains("deny 10.0.0.0/8 is not applied to 10.9.0.1"), "{words}");
    }

    assert_eq!(ratelimit.ok("deny add 10.30.0.1 --force"), "10.30.0.1: deny\n");
    assert_eq!(dropped(&sandbox, &ratelimit, GATEWAY), 10);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 30, 0, 77]), 0);
    assert_eq!(ratelimit.json("why 10.30.0.1")["verdict"], "drop");
    assert!(
        ratelimit.ok("why 10.30.0.1").contains("(a gateway): it is denied all the same, because the rule was forced")
    );
    let doctor = ratelimit.run("doctor eth0").stdout;
    for line in [
        "deny 10.30.0.1 was forced, and denies 10.30.0.0/24 (a connected network), 10.30.0.1 (a gateway)\n",
        "  This host loses packets that it needs.\n",
        "  fix: ratelimit deny del 10.30.0.1\n",
    ] {
        assert!(doctor.contains(line), "{doctor}");
    }
    assert!(ratelimit.ok("save").contains("\n# 10.30.0.1 was denied with --force, which a file does not have: "));
    ratelimit.ok("deny del 10.30.0.1");
    assert_eq!(dropped(&sandbox, &ratelimit, GATEWAY), 0);

    // Many lines are set, and those that do nothing are named.
    let text = ratelimit.ok_with("deny add -", "10.30.0.1\n203.0.113.1\n");
    assert_eq!(
        text,
        "2 rules: deny\n  10.30.0.1 is not applied to 10.30.0.0/24 (a connected network), 10.30.0.1 (a gateway)\n"
    );
    assert_eq!(dropped(&sandbox, &ratelimit, GATEWAY), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, [203, 0, 113, 1]), 10);
    assert_eq!(
        ratelimit.ok_with("deny add - --force", "10.30.0.1\n203.0.113.1\n"),
        "2 rules: deny (replaced 1 other rule)\n  10.30.0.1: was deny\n"
    );
    assert_eq!(dropped(&sandbox, &ratelimit, GATEWAY), 10);
    ratelimit.ok("deny del 10.30.0.1");

    // A program that bans must not fail, nor cut the host off.
    let output = ratelimit.run("deny add 192.0.2.53 --for 600 --keep-longer");
    let line = "192.0.2.53 is a name server, to which no deny is applied: left out";
    assert_eq!((output.status, output.stdout.as_str()), (0, format!("{line}\n").as_str()));
    let output = ratelimit.run("deny add 192.0.2.53 198.51.100.7 --for 600 --keep-longer");
    assert_eq!((output.status, output.stderr.as_str()), (0, format!("ratelimit: {line}\n").as_str()));
    assert_eq!(output.stdout, "198.51.100.7: deny, expires in 10m\n");
    ratelimit.ok("detach --all");
}

#[test]
fn each_command_follows_the_host_and_spare_off_denies_everything() {
    let sandbox = host();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok_with("list set level1 -", "10.0.0.0/8\n");
    let spared = || ratelimit.json("status")["spared"]["prefixes"].clone();
    let has = |source: &str| sources(&spared()).contains(&source);
    assert!(has("10.30.0.0/24") && has("10.30.0.1") && !has("10.40.0.0/24"));
    sandbox.ip("address add 10.40.0.2/24 dev eth0");
    sandbox.ip("route replace 172.31.0.0/16 via 10.40.0.1");
    assert!(has("10.40.0.0/24") && has("10.40.0.1") && !has("10.30.0.1"));
    sandbox.ip("address del 10.40.0.2/24 dev eth0");
    assert!(!has("10.40.0.0/24"));
    // A route that an operator sets can lead everything into a tunnel.
    sandbox.ip("route add 10.0.0.0/9 dev eth0");
    assert!(!has("10.0.0.0/9"));

    assert!(ratelimit.ok("set --spare off").contains("this host's own network: denied like all others"));
    assert_eq!(spared(), json!([]));
    assert_eq!(dropped(&sandbox, &ratelimit, GATEWAY), 10);
    assert_eq!(ratelimit.ok("deny add 10.30.0.1"), "10.30.0.1: deny\n");
    assert!(ratelimit.ok("save").contains("spare = false\n"));
    assert!(ratelimit.run("doctor eth0").stdout.contains("nothing is spared (--spare off)"));
    ratelimit.ok("set --spare on");
    assert_eq!(dropped(&sandbox, &ratelimit, GATEWAY), 0);
    ratelimit.ok("detach --all");
    ratelimit.ok("attach eth0 --spare off");
    ratelimit.ok_with("list set level1 -", "10.0.0.0/8\n");
    assert_eq!(dropped(&sandbox, &ratelimit, GATEWAY), 10);
    ratelimit.ok("detach --all");
}

/// Returns how many packets the list has refused, without a command that changes anything.
fn listed(ratelimit: &Ratelimit<'_>) -> u64 {
    let metrics = ratelimit.ok("metrics");
    let is_listed = |line: &&str| line.starts_with("ratelimit_packets_total{") && line.contains("reason=\"listed\"");
    metrics.lines().find(is_listed).and_then(|line| line.split_whitespace().last()?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_daemon_follows_addresses_routes_and_name_servers() {
    let sandbox = host();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let feed = folder.add("feed.txt", "10.0.0.0/8\n192.0.2.0/24\n");
    folder
        .write(&format!("interfaces = [\"eth0\"]\n[[list]]\nname = \"level1\"\nfile = {feed:?}\naction = \"deny\"\n"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    assert!(
        line.contains("; list level1: 10.0.0.0/8 is not applied to 10.9.0.1 (an address of this host), "),
        "{line}"
    );
    let refuses = |source: [u8; 4]| {
        let before = listed(&ratelimit);
        Flood::of(Frame::udp(source, 9)).send(&sandbox, 1);
        listed(&ratelimit) > before
    };
    let moves = |from: [u8; 4], to: [u8; 4]| {
        wait_until(&format!("{to:?} is refused"), || !refuses(to));
        wait_until(&format!("{from:?} is spared"), || refuses(from));
    };
    assert!(!refuses(GATEWAY) && !refuses(NAME_SERVER) && refuses([10, 40, 0, 1]));
    sandbox.ip("route replace 172.31.0.0/16 via 10.30.0.9");
    sandbox.ip("address add 10.40.0.2/24 dev eth0");
    sandbox.ip("address del 10.30.0.2/24 dev eth0");
    moves(GATEWAY, [10, 40, 0, 1]);
    name_server(&sandbox, [192, 0, 2, 99]);
    moves(NAME_SERVER, [192, 0, 2, 99]);
    daemon.end();
    ratelimit.ok("detach --all");
}
