//! Clients that are stopped in the kernel: their packets, and the ends of their limits.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    thread,
    time::Instant,
};

use ratelimit_dataplane::{instance::read_only::View, pins::layout::PINS};
use ratelimit_tests::{
    Daemon, Flood, Folder, Frame, PEER_IPV4, PEER_IPV6, Ratelimit, Sandbox, VICTIM_IPV4, VICTIM_IPV6,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Connection, ask, end, file, limits, listener, refused, scrape, start};

const ON: &str = "mode = \"on\"\n";
/// A source that is not stopped.
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 3);

/// The limit of a stopped client in the list.
pub(super) const LIMIT: &str = "10.9.0.2 tcp/8443 5/s application";

pub(super) fn start_on(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, folder: &Folder) -> Daemon {
    start(sandbox, ratelimit, folder, &file(folder, ON))
}

/// Asks to stop the peer. Returns the number of limits that it has had.
pub(super) fn stop(folder: &Folder, connection: &Connection, daemon: &mut Daemon) -> u64 {
    let answer = ask(folder, &connection.request(None));
    assert_eq!(answer["outcome"], "stopped", "{answer}");
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: 10.9.0.2 tcp/8443: limited for "), "{line}");
    answer["times"].as_u64().unwrap()
}

/// Returns passed and dropped packets of a source to the service.
fn packets(ratelimit: &Ratelimit<'_>, source: Ipv4Addr) -> [u64; 2] {
    let why = ratelimit.json(&format!("why {source} --service tcp/8443"));
    ["passed", "dropped"].map(|verdict| why[verdict]["packets"].as_u64().unwrap())
}

/// Returns how often the rules have changed.
fn generation(sandbox: &Sandbox) -> u32 {
    let view = sandbox.victim(|| View::open(PINS.as_ref()).unwrap());
    view.tables().control().unwrap().generation
}

/// A request and its refusal, as a client with a connection of its own sees it.
fn exchange(sandbox: &Sandbox, listener: &TcpListener) -> String {
    let mut connection = Connection::from(sandbox, listener, PEER_IPV4);
    connection.client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut request = [0; 27];
    connection.accepted.read_exact(&mut request).unwrap();
    connection.accepted.write_all(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n\r\n").unwrap();
    drop(connection.accepted);
    let mut answer = String::new();
    connection.client.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_stopped_client_is_limited_still_reads_its_refusal_and_others_are_not_limited() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start_on(&sandbox, &ratelimit, &folder);
    let listener = listener(&sandbox, VICTIM_IPV4);
    let connection = Connection::from(&sandbox, &listener, PEER_IPV4);
    let peer = connection.accepted.peer_addr().unwrap();
    let answer = ask(&folder, &connection.request(None));
    // The program that tells services apart is loaded meanwhile.
    let seconds = answer["seconds"].as_u64().unwrap();
    assert!((1..=10).contains(&seconds), "{answer}");
    let expected = json!({ "outcome": "stopped", "source": "10.9.0.2", "port": 8_443, "seconds": seconds, "times": 1 });
    assert_eq!(answer, expected);
    let asker =
        format!("client user=17\\n exceeds login, as user 0 says; connection {peer} to 10.9.0.1:8443 is established");
    assert_eq!(daemon.line(), format!("ratelimit: 10.9.0.2 tcp/8443: limited for {seconds}s (number 1): {asker}"));
    assert_eq!(limits(&ratelimit), ["default any 1000/s config", LIMIT]);
    assert_eq!(ask(&folder, &connection.request(None))["outcome"], "already");

    let answer = exchange(&sandbox, &listener);
    assert!(answer.contains("Retry-After: 7"), "{answer}");
    for source in [PEER_IPV4, OTHER] {
        Flood::of(Frame::ack(source, 8_443)).send(&sandbox, 500);
    }
    // What passed can be an estimate of the cells, and what is dropped never is.
    let [_, dropped] = packets(&ratelimit, PEER_IPV4);
    assert!(dropped >= 400, "{dropped}");
    assert_eq!(packets(&ratelimit, OTHER)[1], 0);
    // Other services of the same client are not limited.
    Flood::of(Frame::udp(PEER_IPV4, 53)).send(&sandbox, 500);
    let why = ratelimit.json("why 10.9.0.2");
    assert_eq!((&why["dropped"]["packets"], &why["decides"]["origin"]), (&json!(0), &json!("config")), "{why}");

    // `why` tells who, why, the proof and the end.
    let stop = &why["stops"][0];
    let connection_of = json!({ "local": "10.9.0.1:8443", "remote": peer.to_string() });
    let expected = [json!("login"), json!("user=17\\n"), json!(0), connection_of, Value::Null, json!(1)];
    assert_eq!(["rule", "client", "user", "connection", "host", "times"].map(|key| stop[key].clone()), expected);
    assert!((1..=10).contains(&stop["left_seconds"].as_u64().unwrap()), "{stop}");
    let text = ratelimit.ok("why 10.9.0.2 --service tcp/8443");
    assert!(text.contains("set for an application") && text.contains(&format!("(number 1): {asker}")), "{text}");
    assert_eq!(ratelimit.json("why 10.9.0.3")["stops"], json!([]));

    // It is no rule of the operator.
    assert!(!ratelimit.ok("save").contains("8443"));
    let status = ratelimit.json("status");
    assert_eq!((&status["config"]["differences"], &status["rules"]["stops"]), (&json!([]), &json!(1)));
    assert!(ratelimit.ok("status").contains("rules: 1 stopped client\nstops: on, 1 client is stopped\n"));
    let scrape = scrape(&ratelimit);
    for series in [
        "ratelimit_stop_requests_total{outcome=\"stopped\"}",
        "ratelimit_stops_in_force",
        "ratelimit_rules{kind=\"limit\",origin=\"application\"}",
    ] {
        assert_eq!(scrape[series], 1.0, "{series}");
    }
    assert_eq!(scrape["ratelimit_stops_in_shadow"], 0.0);
    assert_eq!(daemon.line(), "ratelimit: 10.9.0.2 tcp/8443: the limit of an application has ended");
    assert_eq!(limits(&ratelimit), ["default any 1000/s config"]);
    let ended = ratelimit.json("events --past -n 1");
    assert_eq!([&ended["event"], &ended["reason"]], ["stop-ended", "time"], "{ended}");
    let again = ask(&folder, &connection.request(None));
    assert!(again["seconds"].as_u64().unwrap() > 10 && again["times"] == 2, "{again}");
    assert!(daemon.line().contains("(number 2)"));
    end(&ratelimit, daemon);
}

#[test]
fn a_limit_ends_without_its_daemon_and_the_next_daemon_deletes_it() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start_on(&sandbox, &ratelimit, &folder);
    let listener = listener(&sandbox, VICTIM_IPV4);
    let connection = Connection::from(&sandbox, &listener, PEER_IPV4);
    assert_eq!(stop(&folder, &connection, &mut daemon), 1);
    daemon.process.signal(Signal::KILL);
    let _ = daemon.process.wait();
    // The rule has an end in the kernel.
    let list = ratelimit.json("limit list");
    let left = list[1]["expires_in_seconds"].as_u64().unwrap();
    assert!(left <= 10 && limits(&ratelimit)[1] == LIMIT, "{list}");
    let mut daemon = start_on(&sandbox, &ratelimit, &folder);
    // A request waits until the rules of the daemon before are gone.
    assert_eq!(stop(&folder, &connection, &mut daemon), 1);
    assert_eq!(limits(&ratelimit), ["default any 1000/s config", LIMIT]);
    // Another mode ends all of them, and so does a file without the table.
    for text in [file(&folder, "mode = \"shadow\"\n"), super::FILE.to_owned()] {
        folder.write(&text);
        assert!(daemon.line().contains("reloaded, rules: 0 set, 0 deleted, 1 unchanged"));
        let line = daemon.line();
        assert_eq!(
            line,
            "ratelimit: 10.9.0.2 tcp/8443: the limit of an application has ended with the mode of the file"
        );
        assert_eq!(limits(&ratelimit), ["default any 1000/s config"]);
        folder.write(&file(&folder, ON));
        assert!(daemon.line().contains("reloaded"));
        assert_eq!(stop(&folder, &connection, &mut daemon), 1);
    }
    end(&ratelimit, daemon);
}

#[test]
fn an_ipv6_network_is_limited_after_four_addresses() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start_on(&sandbox, &ratelimit, &folder);
    sandbox.ip("route add fd00:a::/64 dev eth0");
    let listener = listener(&sandbox, VICTIM_IPV6);
    let mut sources = Vec::new();
    for number in 1..=5u16 {
        let address = std::net::Ipv6Addr::new(0xfd00, 0xa, 0, 0, 0, 0, 0, number);
        assert_ne!(address, PEER_IPV6);
        sandbox.add_peer_address(address);
        let answer = ask(&folder, &Connection::from(&sandbox, &listener, address).request(None));
        assert_eq!(answer["outcome"], "stopped", "{answer}");
        sources.push(answer["source"].as_str().unwrap().to_owned());
        assert!(daemon.line().contains("(number 1)"));
    }
    assert_eq!(sources, ["fd00:a::1", "fd00:a::2", "fd00:a::3", "fd00:a::4", "fd00:a::/64"]);
    Flood::of(Frame::ack([0xfd00, 0xa, 0, 0, 0, 0, 0, 9], 8_443)).send(&sandbox, 200);
    let why = ratelimit.json("why fd00:a::9 --service tcp/8443");
    assert!(why["dropped"]["packets"].as_u64().unwrap() >= 150, "{why}");
    assert_eq!(why["stops"].as_array().unwrap().len(), 1, "{why}");
    end(&ratelimit, daemon);
}

#[test]
fn a_default_that_is_nearly_as_strict_stays() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let daemon = start_on(&sandbox, &ratelimit, &folder);
    let listener = listener(&sandbox, VICTIM_IPV4);
    let connection = Connection::from(&sandbox, &listener, PEER_IPV4);
    ratelimit.ok("limit set default --service tcp --packets 19/s");
    refused(&folder, &connection.request(None), "ruled", "admits hardly more");
    end(&ratelimit, daemon);
}

#[test]
fn many_clients_are_stopped_in_few_changes() {
    const CLIENTS: u8 = 60;
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut daemon = start_on(&sandbox, &ratelimit, &folder);
    let listener = listener(&sandbox, VICTIM_IPV4);
    let client = |number: u8| {
        let address = Ipv4Addr::new(10, 9, 0, 100 + number);
        sandbox.add_peer_address(address);
        Connection::from(&sandbox, &listener, address)
    };
    let connections: Vec<Connection> = (0..CLIENTS).map(client).collect();
    let (before, begin) = (generation(&sandbox), Instant::now());
    thread::scope(|scope| {
        for connections in connections.chunks(3) {
            let folder = &folder;
            scope.spawn(move || {
                for connection in connections {
                    let answer = ask(folder, &connection.request(None));
                    assert_eq!(answer["outcome"], "stopped", "{answer}");
                }
            });
        }
    });
    // Twenty applications wait for their answers at a time, and those that wait get one change.
    let changes = generation(&sandbox) - before;
    println!("{CLIENTS} clients are stopped after {:?}, by {changes} changes", begin.elapsed());
    assert!((1..=u32::from(CLIENTS) / 2).contains(&changes), "{changes}");
    assert!((0..CLIENTS).all(|_| daemon.line().contains("limited for ")));
    let limited = limits(&ratelimit).iter().filter(|limit| limit.ends_with("application")).count();
    assert_eq!((limited, scrape(&ratelimit)["ratelimit_stops_in_force"]), (usize::from(CLIENTS), 60.0));
    folder.write(super::FILE);
    assert!(daemon.line().contains("reloaded"));
    assert!((0..CLIENTS).all(|_| daemon.line().contains("has ended with the mode of the file")));
    assert_eq!(limits(&ratelimit), ["default any 1000/s config"]);
    end(&ratelimit, daemon);
}
