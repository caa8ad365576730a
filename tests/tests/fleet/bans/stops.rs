//! Hosts tell each other which clients they stop for applications.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use ratelimit_tests::{
    Daemon, Flood, Folder, Frame, Hosts, PEER_IPV4, Ratelimit, Sandbox, VICTIM_IPV4, scaled, wait_until,
};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::{Value, json};

use super::BANS;
use crate::stage::{at_the_server, with_daemons_by};

/// A client that the second host allows.
const ALLOWED: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 3);

/// Asks a daemon to stop a client that is connected. Returns the outcome.
fn stop(sandbox: &Sandbox, socket_path: &Path, listener: &TcpListener, client: Ipv4Addr) -> Value {
    let from = SocketAddr::from((client, 0));
    let _client = sandbox.peer(|| {
        let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&client, &from).unwrap();
        connect(&client, &listener.local_addr().unwrap()).unwrap();
        TcpStream::from(client)
    });
    let (accepted, remote) = listener.accept().unwrap();
    let connection = json!({ "local": accepted.local_addr().unwrap().to_string(), "remote": remote.to_string() });
    let mut stream = UnixStream::connect(socket_path).unwrap();
    writeln!(stream, "{}", json!({ "connection": connection, "rule": "login", "client": "17" })).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str::<Value>(&answer).unwrap()["outcome"].clone()
}

/// Returns the next line about a stopped client.
fn line(daemon: &mut Daemon) -> String {
    loop {
        let line = daemon.line();
        assert!(!line.is_empty(), "the daemon has ended");
        if line.contains("tcp/8443") {
            return line;
        }
    }
}

#[test]
fn a_client_that_one_host_stops_is_limited_on_others_unless_they_spare_it() {
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    let folders: Vec<_> = hosts.hosts.iter().map(|_| Folder::new()).collect();
    let sockets: Vec<_> = folders.iter().map(|folder| folder.file().with_file_name("stops")).collect();
    let keys = |number: usize| {
        let mode = if number == 2 { "shadow" } else { "on" };
        let allow = format!("[[rule]]\nsource = \"{ALLOWED}\"\npolicy = \"allow\"\n");
        let rules = if number == 1 { &*allow } else { "" };
        let socket = sockets[number].display();
        // With a service, the program tells services apart before the first client is stopped.
        let service = "[service.\"tcp/80\"]\npackets = \"1000/s\"\n";
        let stops = format!("[stops]\nsocket = \"{socket}\"\nmode = \"{mode}\"\n");
        at_the_server(number, &format!("{BANS}{stops}{service}{rules}"))
    };
    let first = &hosts.hosts[0];
    first.add_peer_address(ALLOWED);
    let listener = first.victim(|| TcpListener::bind((VICTIM_IPV4, 8_443)).unwrap());
    with_daemons_by(&hosts, keys, |daemons| {
        let second = Ratelimit::new(&hosts.hosts[1]);
        let up = |ratelimit: &Ratelimit| ratelimit.run("fleet status").status == 0;
        wait_until("the engine answers", || hosts.hosts.iter().all(|host| up(&Ratelimit::new(host))));
        for client in [ALLOWED, PEER_IPV4] {
            assert_eq!(stop(first, &sockets[0], &listener, client), "stopped");
        }
        let begin = Instant::now();
        let text = line(&mut daemons[1]);
        let after = begin.elapsed();
        println!("limited on another host after {:.2} s", after.as_secs_f64());
        let by = "a client exceeds login, as the host host0 says";
        assert!(text.starts_with("ratelimit: 10.9.0.2 tcp/8443: limited for ") && text.ends_with(by), "{text}");
        assert!(after < scaled(Duration::from_secs(3)), "{after:?}");
        Flood::of(Frame::ack(PEER_IPV4, 8_443)).send(&hosts.hosts[1], 500);
        let why = second.json("why 10.9.0.2 --service tcp/8443");
        // What passed is an estimate.
        assert!(why["dropped"]["packets"].as_u64().unwrap() >= 450, "{why}");
        let stop = &why["stops"][0];
        let expected = [json!("host0"), json!("login"), Value::Null, Value::Null, Value::Null];
        assert_eq!(["host", "rule", "client", "user", "connection"].map(|key| stop[key].clone()), expected);
        // The host decides about an address that it allows.
        let spared = second.json(&format!("why {ALLOWED} --service tcp/8443"));
        assert_eq!((&spared["verdict"], &spared["stops"]), (&json!("pass"), &json!([])));
        // In shadow, a host only tells.
        for _ in 0..2 {
            let text = line(&mut daemons[2]);
            assert!(text.contains("would be limited for ") && text.ends_with(by), "{text}");
        }
        let listed = Ratelimit::new(&hosts.hosts[2]).json("limit list");
        assert!(!listed.to_string().contains("application"), "{listed}");
        // The end is a part of what the host has told.
        assert_eq!(line(&mut daemons[1]), "ratelimit: 10.9.0.2 tcp/8443: the limit of an application has ended");
        for which in ["limited for ", "limited for ", "has ended", "has ended"] {
            let text = line(&mut daemons[0]);
            assert!(text.contains(which), "{text}");
        }
        for _ in 0..2 {
            let text = line(&mut daemons[2]);
            assert!(text.ends_with("the limit of an application would have ended"), "{text}");
        }
    });
}
