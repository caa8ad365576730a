//! `/metrics` of the daemon, read directly. `prometheus.rs` uses a real server.

mod http;
pub(crate) mod prometheus;

use std::{
    collections::BTreeMap,
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

pub(crate) const FILE: &str = "interfaces = [\"eth0\"]\n[default]\npackets = \"10/h\"\nburst = 4\n";

/// Starts a daemon with this file.
pub(crate) fn start(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, folder: &Folder, text: &str) -> Daemon {
    folder.write(text);
    let mut daemon = Daemon::start(sandbox, ratelimit, &folder.file());
    let line = daemon.line();
    assert!(line.contains(": in force, "), "{line}");
    daemon
}

/// Returns all series of a scrape with their values.
pub(crate) fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let series = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    let all: Vec<(String, f64)> = series.collect();
    let map: BTreeMap<_, _> = all.iter().cloned().collect();
    assert_eq!(map.len(), all.len(), "duplicate series: {text}");
    map
}

pub(crate) fn scrape(ratelimit: &Ratelimit<'_>) -> BTreeMap<String, f64> {
    series(&ratelimit.ok("metrics"))
}

/// Returns packets with this verdict.
fn packets(scrape: &BTreeMap<String, f64>, verdict: &str) -> f64 {
    let begin = format!("ratelimit_packets_total{{verdict=\"{verdict}\"");
    scrape.iter().filter(|(name, _)| name.starts_with(&begin)).map(|(_, value)| value).sum()
}

/// Sends a request to this address and returns the response.
pub(crate) fn ask(sandbox: &Sandbox, address: &str, request: &str) -> String {
    sandbox.victim(|| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

pub(crate) fn get(sandbox: &Sandbox, address: &str, headers: &str) -> String {
    ask(sandbox, address, &format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n"))
}

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\n";

#[test]
fn a_scrape_agrees_with_status() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let daemon = start(&sandbox, &ratelimit, &folder, &format!("{FILE}[settings]\nfront = false\n"));
    ratelimit.ok("deny add 10.7.0.0/16");
    ratelimit.ok("allow add 10.6.0.0/16 --for 1h");
    ratelimit.ok("limit set 10.5.0.1 --packets 1/s");
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 100);
    Flood::of(Frame::udp([10, 7, 0, 7], 9)).sources(5).send(&sandbox, 1_000);
    let (scrape, status) = (scrape(&ratelimit), ratelimit.json("status"));
    for (verdict, reason, packets) in [
        ("pass", "within-limit", 4.0),
        ("drop", "over-packets", 96.0),
        ("drop", "denied", 1_000.0),
        ("shadow", "denied", 0.0),
    ] {
        let labels = format!("{{verdict=\"{verdict}\",reason=\"{reason}\"}}");
        assert_eq!(scrape[&format!("ratelimit_packets_total{labels}")], packets, "{labels}");
        let bytes = packets * Vec::from(Frame::udp([10, 9, 0, 7], 9)).len() as f64;
        assert_eq!(scrape[&format!("ratelimit_bytes_total{labels}")], bytes, "{labels}");
    }
    for (reason, traffic) in status["reasons"].as_object().unwrap() {
        let found = ["pass", "drop"].iter().find_map(|verdict| {
            scrape.get(&format!("ratelimit_packets_total{{verdict=\"{verdict}\",reason=\"{reason}\"}}"))
        });
        assert_eq!(found.copied(), traffic["packets"].as_f64(), "{reason}");
    }
    let sources = &status["sources"];
    for (name, value) in [
        ("ratelimit_sources_tracked", &sources["tracked"]),
        ("ratelimit_sources_max", &sources["max"]),
        ("ratelimit_table_entries{table=\"BUCKETS\"}", &sources["buckets"]),
        ("ratelimit_buckets_created_total", &status["admission"]["created"]),
    ] {
        assert_eq!(Some(scrape[name]), value.as_f64(), "{name}");
    }
    for (series, value) in [
        ("ratelimit_instance_up", 1.0),
        ("ratelimit_sources_exceeding", 6.0),
        ("ratelimit_rules{kind=\"limit\",origin=\"config\"}", 1.0),
        ("ratelimit_rules{kind=\"limit\",origin=\"command\"}", 1.0),
        ("ratelimit_rules{kind=\"allow\",origin=\"command\"}", 1.0),
        ("ratelimit_rules{kind=\"deny\",origin=\"command\"}", 1.0),
        ("ratelimit_rules{kind=\"deny\",origin=\"ban\"}", 0.0),
        ("ratelimit_table_entries{table=\"SOURCE_RULES\"}", 1.0),
        ("ratelimit_table_entries{table=\"PREFIX_RULES\"}", 2.0),
        ("ratelimit_table_max_entries{table=\"BANS\"}", 65_536.0),
        ("ratelimit_shadow", 0.0),
    ] {
        assert_eq!(scrape[series], value, "{series}");
    }
    let attached = &status["interfaces"][0];
    let info = format!(
        "ratelimit_interface_info{{interface=\"eth0\",mode=\"native\",program_id=\"{}\"}}",
        attached["program_id"]
    );
    assert_eq!(scrape[&info], 1.0);
    let memory = scrape
        .range("ratelimit_map_memory_bytes".to_owned()..)
        .take_while(|(name, _)| name.starts_with("ratelimit_map_memory_bytes"));
    assert_eq!(Some(memory.map(|(_, bytes)| bytes).sum()), status["memory"]["bytes"].as_f64());
    assert!(scrape["process_resident_memory_bytes"] > 1e6 && scrape["process_open_fds"] > 3.0);

    // JSON output has the same values.
    let json = ratelimit.json("metrics");
    let families = json["families"].as_array().unwrap();
    let packets = families.iter().find(|family| family["name"] == "ratelimit_packets_total").unwrap();
    assert!(packets["samples"].as_array().unwrap().iter().any(|sample| {
        sample["labels"]["reason"] == "denied" && sample["labels"]["verdict"] == "drop" && sample["value"] == 1_000
    }));
    assert_eq!((&packets["kind"], &json["problem"]), (&Value::from("counter"), &Value::Null));

    // Without an instance its counters are missing, not 0.
    ratelimit.ok("detach --all");
    let text = ratelimit.ok("metrics");
    assert_eq!(series(&text)["ratelimit_instance_up"], 0.0);
    assert!(!text.contains("ratelimit_packets_total") && text.contains("\n# ratelimit is not attached"), "{text}");
    daemon.end();
    let none = "ratelimit: no daemon runs for /sys/fs/bpf/ratelimit: start one with `ratelimit run -c FILE`";
    assert_eq!(ratelimit.fails("metrics"), none);
}

#[test]
fn shadow_cells_unknown_sources_and_bans_are_exported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let text =
        format!("{FILE}ban = \"1h\"\n[settings]\nunknown = \"1k/s\"\nadmissions = \"50/s\"\nmax-sources = 1000\n");
    let daemon = start(&sandbox, &ratelimit, &folder, &text);
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 50);
    let before = scrape(&ratelimit);
    assert_eq!(before["ratelimit_rules{kind=\"deny\",origin=\"ban\"}"], 1.0);
    assert_eq!(before["ratelimit_table_entries{table=\"BANS\"}"], 1.0);
    assert_eq!((packets(&before, "pass"), packets(&before, "drop"), packets(&before, "shadow")), (4.0, 46.0, 0.0));
    assert_eq!(before["ratelimit_unknown_packets_per_second"], 1_000.0);
    assert_eq!(before["ratelimit_unknown_passed_packets_total"], 4.0);
    assert_eq!(before["ratelimit_known_sources"], 0.0);
    assert_eq!(before["ratelimit_cells"], 131_072.0);
    let cpus = ratelimit.json("status")["admission"]["cpus"].as_f64().unwrap();
    assert_eq!(before["ratelimit_admission_buckets_per_second"], 50.0 * cpus);
    assert_eq!(before["ratelimit_bucket_idle_at_full_budget_seconds"], 1_000.0 / (50.0 * cpus));
    ratelimit.ok("attach eth0 --shadow --unknown off");
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 70);
    let after = scrape(&ratelimit);
    assert_eq!((packets(&after, "pass"), packets(&after, "drop"), packets(&after, "shadow")), (4.0, 46.0, 70.0));
    assert_eq!(after["ratelimit_shadow"], 1.0);
    assert!(!after.contains_key("ratelimit_known_sources"));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn reloads_are_counted_and_a_failed_one_changes_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let mut daemon = start(&sandbox, &ratelimit, &folder, FILE);
    const LAST: &str = "ratelimit_config_last_reload_success_timestamp_seconds";
    let told = |of: &BTreeMap<String, f64>| {
        let [good, bad] =
            ["success", "failure"].map(|result| of[&format!("ratelimit_config_reloads_total{{result=\"{result}\"}}")]);
        (good, bad, of["ratelimit_config_last_reload_successful"])
    };
    let begin = scrape(&ratelimit);
    assert_eq!(told(&begin), (0.0, 0.0, 1.0));
    assert!(begin[LAST] >= begin["process_start_time_seconds"]);
    folder.write("interface = 1");
    daemon.line();
    let failed = scrape(&ratelimit);
    assert_eq!(told(&failed), (0.0, 1.0, 0.0));
    assert_eq!((failed[LAST], failed["ratelimit_rules{kind=\"limit\",origin=\"config\"}"]), (begin[LAST], 1.0));
    folder.write("interfaces = [\"eth0\"]");
    daemon.line();
    let good = scrape(&ratelimit);
    assert_eq!(told(&good), (1.0, 1.0, 1.0));
    assert!(good[LAST] > begin[LAST]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn scrapes_do_not_wait_for_commands_and_reloads_do_not_wait_for_scrapes() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let mut daemon = start(&sandbox, &ratelimit, &folder, FILE);
    // Held like a command that takes long.
    let pins = sandbox.victim(|| fs::File::open("/sys/fs/bpf/ratelimit").unwrap());
    flock(&pins, FlockOperation::LockExclusive).unwrap();
    assert_eq!(scrape(&ratelimit)["ratelimit_instance_up"], 1.0);
    // From here on the daemon itself waits for the lock.
    folder.write("interfaces = [\"eth0\"]");
    let mut reload = sandbox.start(ratelimit.command("reload"));
    for _ in 0..3 {
        assert_eq!(scrape(&ratelimit)["ratelimit_rules{kind=\"limit\",origin=\"config\"}"], 1.0);
    }
    flock(&pins, FlockOperation::Unlock).unwrap();
    assert!(reload.wait().status.success());
    daemon.line();
    assert_eq!(scrape(&ratelimit)["ratelimit_rules{kind=\"limit\",origin=\"config\"}"], 0.0);
    drop(daemon);
    ratelimit.ok("detach --all");
}

#[test]
fn the_listen_address_follows_the_file_and_a_used_one_changes_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let listening = || {
        let tcp = sandbox.victim(|| {
            fs::read_to_string("/proc/thread-self/net/tcp").unwrap()
                + &fs::read_to_string("/proc/thread-self/net/tcp6").unwrap()
        });
        tcp.lines().filter(|line| line.split_whitespace().nth(3) == Some("0A")).count()
    };
    // Another process listens on that address first.
    let taken = sandbox.victim(|| TcpListener::bind("127.0.0.1:9465").unwrap());
    let on = |port: u16| format!("{FILE}[metrics]\nlisten = \"127.0.0.1:{port}\"\n");
    folder.write(&on(9465));
    let line = ratelimit.fails(&format!("run -c {}", folder.file().display()));
    assert!(line.contains("metrics: cannot listen on 127.0.0.1:9465: Address already in use"), "{line}");
    assert!(sandbox.pins().is_empty());

    let mut daemon = start(&sandbox, &ratelimit, &folder, FILE);
    assert_eq!(listening(), 1);
    folder.write(&on(9464));
    daemon.line();
    let answer = get(&sandbox, "127.0.0.1:9464", "");
    assert!(
        answer.starts_with(OK) && answer.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{answer}"
    );
    assert!(answer.contains("\nratelimit_instance_up 1\n"), "{answer}");

    // The limits of that file do not apply either.
    folder.write(&on(9465).replace("10/h", "20/h"));
    let line = daemon.line();
    assert!(line.contains("nothing was changed: metrics: cannot listen on 127.0.0.1:9465"), "{line}");
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["packets"][0]["text"], "10/h");
    assert!(get(&sandbox, "127.0.0.1:9464", "").starts_with(OK));
    drop(taken);
    ratelimit.ok("reload");
    daemon.line();
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["packets"][0]["text"], "20/h");
    assert!(get(&sandbox, "127.0.0.1:9465", "").starts_with(OK));
    sandbox
        .victim(|| assert_eq!(TcpStream::connect("127.0.0.1:9464").unwrap_err().kind(), ErrorKind::ConnectionRefused));
    folder.write(FILE);
    daemon.line();
    sandbox
        .victim(|| assert_eq!(TcpStream::connect("127.0.0.1:9465").unwrap_err().kind(), ErrorKind::ConnectionRefused));
    assert_eq!(listening(), 0);
    let mode = |name: &str| {
        sandbox.victim(|| fs::metadata(Path::new("/run/ratelimit").join(name)).unwrap().permissions().mode())
    };
    assert_eq!((mode("metrics") & 0o777, mode("metrics")), (0o660, mode("socket")));
    daemon.end();
    assert!(!sandbox.victim(|| Path::new("/run/ratelimit").exists()));
    ratelimit.ok("detach --all");
}
