//! Applications that ask to stop clients, with real connections. Here the daemon only tells what it would limit.

mod on;
mod operator;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};

use ratelimit_tests::{Daemon, Folder, PEER_IPV4, PEER_IPV6, Ratelimit, Sandbox, VICTIM_IPV4, VICTIM_IPV6};
use rustix::net::{AddressFamily, Shutdown, SocketType, bind, connect, shutdown, socket};
use serde_json::{Value, json};

use super::limits;
use crate::{
    events::Events,
    metrics::{scrape, start},
};

const FILE: &str = "interfaces = [\"eth0\"]\n[default]\npackets = \"1000/s\"\n";

/// A connection that the victim has accepted from the peer.
struct Connection {
    accepted: TcpStream,
    client: TcpStream,
}

impl Connection {
    /// Connects from this address of the peer.
    fn from(sandbox: &Sandbox, listener: &TcpListener, address: impl Into<IpAddr>) -> Self {
        Self::to(sandbox, listener, listener.local_addr().unwrap().ip(), address)
    }

    /// Connects to this address of the listener.
    fn to(sandbox: &Sandbox, listener: &TcpListener, to: impl Into<IpAddr>, address: impl Into<IpAddr>) -> Self {
        let (to, from) = (SocketAddr::new(to.into(), 8_443), SocketAddr::new(address.into(), 0));
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let client = sandbox.peer(|| {
            let client = socket(family, SocketType::STREAM, None).unwrap();
            bind(&client, &from).unwrap();
            connect(&client, &to).unwrap();
            TcpStream::from(client)
        });
        Self { accepted: listener.accept().unwrap().0, client }
    }

    /// Returns the request of an application about this connection, and with another remote end.
    fn request(&self, remote: Option<&str>) -> Value {
        let (local, peer) = (self.accepted.local_addr().unwrap(), self.accepted.peer_addr().unwrap());
        let remote = remote.map_or(peer.to_string(), ToOwned::to_owned);
        json!({ "connection": { "local": local.to_string(), "remote": remote }, "rule": "login", "client": "user=17\n" })
    }
}

fn listener(sandbox: &Sandbox, address: impl Into<IpAddr>) -> TcpListener {
    let address = SocketAddr::new(address.into(), 8_443);
    sandbox.victim(|| TcpListener::bind(address).unwrap())
}

fn socket_of(folder: &Folder) -> PathBuf {
    folder.file().with_file_name("stops")
}

/// Returns a file with a socket for applications, and more lines about them.
fn file(folder: &Folder, more: &str) -> String {
    format!("{FILE}[stops]\nsocket = \"{}\"\n{more}", socket_of(folder).display())
}

/// Sends a line, and returns the answer.
fn send(socket: &Path, line: &str) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

fn ask(folder: &Folder, request: &Value) -> Value {
    send(&socket_of(folder), &request.to_string())
}

/// Asserts that a request is refused for this reason.
fn refused(folder: &Folder, request: &Value, reason: &str, why: &str) {
    let answer = ask(folder, request);
    assert_eq!((answer["outcome"].as_str(), answer["reason"].as_str()), (Some("refused"), Some(reason)), "{answer}");
    assert!(answer["why"].as_str().unwrap().contains(why), "{answer}");
}

fn end(ratelimit: &Ratelimit<'_>, daemon: Daemon) {
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_client_of_a_proven_connection_would_be_stopped_once_and_no_rule_changes() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start(&sandbox, &ratelimit, &folder, &file(&folder, ""));
    let before = limits(&ratelimit);
    let listening = listener(&sandbox, VICTIM_IPV4);
    let connection = Connection::from(&sandbox, &listening, PEER_IPV4);
    // A process that another test is starting may have the socket for a moment.
    shutdown(&listening, Shutdown::Both).unwrap();
    drop(listening);
    let peer = connection.accepted.peer_addr().unwrap();
    let request = connection.request(None);
    let expected = json!({ "outcome": "would-stop", "source": "10.9.0.2", "port": 8_443, "seconds": 10, "times": 1 });
    // Nobody listens by now, so the request is no proof.
    refused(&folder, &request, "not-established", "10.9.0.1:8443");
    let again = listener(&sandbox, VICTIM_IPV4);
    let mut events = Events::start(&sandbox, &ratelimit, "-n 3 --json");
    assert_eq!(ask(&folder, &request), expected);
    let asker =
        format!("client user=17\\n exceeds login, as user 0 says; connection {peer} to 10.9.0.1:8443 is established");
    let event = format!("10.9.0.2 tcp/8443: would be limited for 10s (number 1): {asker}");
    assert_eq!(daemon.line(), format!("ratelimit: {event}"));
    let answer = ask(&folder, &request);
    assert_eq!(answer["outcome"], "already", "{answer}");
    assert_eq!(limits(&ratelimit), before);
    let scrape = scrape(&ratelimit);
    let requests = |outcome: &str| scrape[&format!("ratelimit_stop_requests_total{{outcome=\"{outcome}\"}}")];
    assert_eq!(["would-stop", "already", "not-established"].map(requests), [1.0; 3]);
    assert_eq!(scrape["ratelimit_stops_in_shadow"], 1.0);
    drop(again);

    // Commands tell of it as well as the log.
    let why = ratelimit.ok("why 10.9.0.2");
    assert!(why.contains("would be stopped: 10.9.0.2 tcp/8443 for ") && why.contains(&asker), "{why}");
    assert_eq!(ratelimit.json("why 10.9.0.2")["stops"][0]["shadow"], json!(true));
    assert!(ratelimit.ok("status").contains("\nstops: in shadow, 1 client would be stopped\n"));
    assert_eq!(ratelimit.json("status")["config"]["stops"], json!({ "mode": "shadow", "in_force": 0, "in_shadow": 1 }));
    let doctor = ratelimit.run("doctor eth0").stdout;
    assert!(doctor.contains("stops: in shadow, 1 client would be stopped"), "{doctor}");
    assert!(ratelimit.ok("events --past").contains(&event));
    folder.write(FILE);
    let has_ended = "10.9.0.2 tcp/8443: the limit of an application would have ended with the mode of the file";
    assert_eq!(daemon.line(), format!("ratelimit: {has_ended}"));
    let line = daemon.line();
    assert!(
        line.ends_with(", now none; stops group: the group of the daemon, now none; stops mode: shadow, now none"),
        "{line}"
    );
    let told: Vec<Value> = (0..3).map(|_| events.json()).collect();
    let kinds: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert!(events.process.wait().status.success());
    assert_eq!(kinds.iter().filter(|kind| **kind == "changed").count(), 1, "{told:?}");
    let stopped = told.iter().find(|event| event["event"] == "stopped").unwrap();
    assert_eq!((&stopped["shadow"], &stopped["connection"]["remote"]), (&json!(true), &json!(peer.to_string())));
    let ended = told.iter().find(|event| event["event"] == "stop-ended").unwrap();
    assert_eq!((&ended["reason"], &ended["client"]), (&json!("mode"), &json!("user=17\\n")));
    end(&ratelimit, daemon);
}

#[test]
fn an_address_without_a_connection_is_never_stopped() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let daemon = start(&sandbox, &ratelimit, &folder, &file(&folder, ""));
    let listener = listener(&sandbox, VICTIM_IPV4);
    let connection = Connection::from(&sandbox, &listener, PEER_IPV4);
    let port = connection.accepted.peer_addr().unwrap().port();
    // What a forged header could name: another client, or another port of the same one.
    for remote in [format!("203.0.113.7:{port}"), format!("10.9.0.2:{}", port ^ 1)] {
        refused(&folder, &connection.request(Some(&remote)), "not-established", &remote);
    }
    end(&ratelimit, daemon);
}

#[test]
fn an_ipv4_client_of_a_socket_for_both_families_is_known_by_its_ipv4_address() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start(&sandbox, &ratelimit, &folder, &file(&folder, ""));
    let listener = listener(&sandbox, Ipv6Addr::UNSPECIFIED);
    let connection = Connection::to(&sandbox, &listener, VICTIM_IPV4, PEER_IPV4);
    assert!(connection.accepted.peer_addr().unwrap().is_ipv6());
    let answer = ask(&folder, &connection.request(None));
    assert_eq!((answer["outcome"].as_str(), answer["source"].as_str()), (Some("would-stop"), Some("10.9.0.2")));
    assert!(daemon.line().starts_with("ratelimit: 10.9.0.2 tcp/8443: "));
    end(&ratelimit, daemon);
}

#[test]
fn proxies_gateways_and_addresses_with_a_rule_are_spared() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let proxies = file(&folder, "trusted-proxies = [\"10.9.0.0/30\"]\n");
    let mut daemon = start(&sandbox, &ratelimit, &folder, &proxies);
    let listener = listener(&sandbox, VICTIM_IPV4);
    let connection = Connection::from(&sandbox, &listener, PEER_IPV4);
    let request = connection.request(None);
    refused(&folder, &request, "spared", "trusted-proxies");
    folder.write(&file(&folder, ""));
    assert!(daemon.line().contains("reloaded"));
    for (change, back) in [
        ("allow add 10.9.0.2", "allow del 10.9.0.2"),
        ("allow add 10.9.0.0/16", "allow del 10.9.0.0/16"),
        ("limit set 10.9.0.0/24 --service tcp --packets 900/s", "limit del 10.9.0.0/24 --service tcp"),
    ] {
        ratelimit.ok(change);
        refused(&folder, &request, "ruled", "10.9.0.2");
        ratelimit.ok(back);
    }
    // The kernel's routes are read again after five seconds, so a daemon that has not read them is asked.
    daemon.end();
    sandbox.ip("route add 198.51.100.0/24 via 10.9.0.2");
    let daemon = start(&sandbox, &ratelimit, &folder, &file(&folder, ""));
    refused(&folder, &request, "spared", "gateway");
    end(&ratelimit, daemon);
}

#[test]
fn an_ipv6_network_would_be_stopped_after_four_addresses_but_not_the_own_one() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start(&sandbox, &ratelimit, &folder, &file(&folder, ""));
    sandbox.ip("route add fd00:a::/64 dev eth0");
    let listener = listener(&sandbox, VICTIM_IPV6);
    let source = |address: IpAddr| {
        if address != PEER_IPV6 {
            sandbox.add_peer_address(address);
        }
        let answer = ask(&folder, &Connection::from(&sandbox, &listener, address).request(None));
        assert_eq!(answer["outcome"], "would-stop", "{answer}");
        answer["source"].as_str().unwrap().to_owned()
    };
    // The victim has an address in fd00:9::/64.
    for network in ["fd00:a::", "fd00:9::1:"] {
        for number in 1..=4 {
            let address = format!("{network}{number}");
            assert_eq!(source(address.parse().unwrap()), address);
        }
    }
    assert_eq!(source("fd00:a::5".parse().unwrap()), "fd00:a::/64");
    assert_eq!(source(PEER_IPV6.into()), "fd00:9::2");
    let events: Vec<_> = (0..10).map(|_| daemon.line()).collect();
    assert!(events.iter().all(|event| event.contains("would be limited for 10s (number 1)")), "{events:?}");
    assert!(events[8].starts_with("ratelimit: fd00:a::/64 tcp/8443: "), "{events:?}");
    end(&ratelimit, daemon);
}

#[test]
fn a_bad_line_is_answered_with_its_reason() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let daemon = start(&sandbox, &ratelimit, &folder, &file(&folder, ""));
    for (line, why) in [
        ("", "expected {\"connection\""),
        ("{\"deny\": \"203.0.113.7\"}", "expected {\"connection\""),
        (&"x".repeat(100_000), "more than 1024 bytes"),
    ] {
        // The daemon closes the connection after a line that is too long, whether or not it was sent as a whole.
        let mut stream = UnixStream::connect(socket_of(&folder)).unwrap();
        let _ = writeln!(stream, "{line}");
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["reason"], "bad", "{answer}");
        assert!(answer["why"].as_str().unwrap().contains(why), "{answer}");
    }
    end(&ratelimit, daemon);
}

#[test]
fn the_socket_belongs_to_its_group_and_goes_with_its_table() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start(&sandbox, &ratelimit, &folder, &file(&folder, "group = \"4242\"\n"));
    let metadata = fs::metadata(socket_of(&folder)).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o777, metadata.uid(), metadata.gid()), (0o660, 0, 4_242));
    folder.write(&file(&folder, "group = \"4243\"\n"));
    assert!(daemon.line().contains("reloaded"));
    assert_eq!(fs::metadata(socket_of(&folder)).unwrap().gid(), 4_243);
    // A group or a socket that cannot be had changes nothing.
    folder.write(&file(&folder, "group = \"no-such-group\"\n"));
    let line = daemon.line();
    assert!(line.contains("nothing was changed: stops: there is no group no-such-group"), "{line}");
    folder.write(&format!("{FILE}[stops]\nsocket = \"/nowhere/stops\"\n"));
    let line = daemon.line();
    assert!(line.contains("nothing was changed: stops: /nowhere is no folder"), "{line}");
    assert!(UnixStream::connect(socket_of(&folder)).is_ok());
    folder.write(FILE);
    assert!(daemon.line().contains("reloaded"));
    assert!(!socket_of(&folder).exists());
    assert!(!scrape(&ratelimit).contains_key("ratelimit_stops_in_shadow"));
    end(&ratelimit, daemon);
}
