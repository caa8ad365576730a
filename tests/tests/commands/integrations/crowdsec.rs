//! The local API of a real CrowdSec, without its agent and without any network.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, PATIENCE, Process, Ratelimit, Sandbox, unpacked};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Its folder in the sandbox's own `/run`, which ends with the sandbox.
const FOLDER: &str = "/run/crowdsec";
/// The address of its API.
const API: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// The number of decisions.
const MANY: u32 = 100_000;
/// Time from an answer of the API until all of its decisions are in force. A build without optimization needs longer.
const IN_FORCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 15 } else { 5 });

/// A CrowdSec of which only the local API runs.
struct CrowdSec<'a> {
    sandbox: &'a Sandbox,
    process: Option<Process>,
}

impl<'a> CrowdSec<'a> {
    fn start(sandbox: &'a Sandbox) -> Self {
        let paths = ["config_dir", "data_dir", "hub_dir", "notification_dir", "plugin_dir"];
        let paths: String = paths.iter().map(|name| format!("  {name}: {FOLDER}/\n")).collect();
        let config = format!(
            "common: {{daemonize: false, log_media: stdout, log_level: error, working_dir: {FOLDER}}}\n\
            config_paths:\n{paths}  simulation_path: {FOLDER}/simulation.yaml\n  index_path: {FOLDER}/.index.json\n\
            crowdsec_service: {{acquisition_path: {FOLDER}/acquis.yaml}}\n\
            db_config: {{type: sqlite, db_path: {FOLDER}/crowdsec.db}}\n\
            api:\n  client: {{credentials_path: {FOLDER}/credentials.yaml}}\n\
            \x20 server: {{listen_uri: \"{API}\", log_level: error, profiles_path: {FOLDER}/profiles.yaml}}\n\
            prometheus: {{enabled: false}}\n"
        );
        let profile =
            "name: default\nfilters: [\"false\"]\ndecisions: [{type: ban, duration: 4h}]\non_success: break\n";
        sandbox.victim(|| {
            fs::create_dir(FOLDER).unwrap();
            let files = [("acquis.yaml", ""), ("credentials.yaml", ""), ("simulation.yaml", "simulation: false\n")];
            let more = [(".index.json", "{}"), ("config.yaml", config.as_str()), ("profiles.yaml", profile)];
            for (name, text) in files.into_iter().chain(more) {
                fs::write(format!("{FOLDER}/{name}"), text).unwrap();
            }
        });
        let mut crowdsec = Self { sandbox, process: None };
        crowdsec.cscli(&format!("machines add tests -p secret -f {FOLDER}/credentials.yaml --url http://{API}"));
        crowdsec.cscli("bouncers add ratelimit -k secret");
        crowdsec.run();
        crowdsec
    }

    fn program(name: &str, version: &str) -> Command {
        let mut command = unpacked::program("crowdsec", name, version);
        command.args(["-c", &format!("{FOLDER}/config.yaml")]);
        command
    }

    /// Starts the API. It answers when this returns.
    fn run(&mut self) {
        let mut command = Self::program("crowdsec", "-version");
        command.arg("-no-cs").stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(self.sandbox.start(command));
        let begin = Instant::now();
        while self.sandbox.victim(|| TcpStream::connect(API)).is_err() {
            assert!(begin.elapsed() < PATIENCE, "CrowdSec does not start");
            thread::yield_now();
        }
    }

    fn end(&mut self) {
        let mut process = self.process.take().unwrap();
        process.signal(Signal::TERM);
        let _ = process.wait();
    }

    fn cscli(&self, words: &str) -> Output {
        let output = self.sandbox.output(Self::program("cscli", "version").args(words.split(' ')));
        assert!(output.status.success(), "{words}: {output:?}");
        output
    }

    /// Returns how long the API needs to answer with all decisions.
    fn time_of_answer(&self) -> Duration {
        let begin = Instant::now();
        let answer = self.sandbox.victim(|| {
            let mut stream = TcpStream::connect(API).unwrap();
            let target = "/v1/decisions/stream?startup=true&dedup=false";
            write!(stream, "GET {target} HTTP/1.0\r\nX-Api-Key: secret\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            answer
        });
        assert!(answer.starts_with(b"HTTP/1.0 200"));
        begin.elapsed()
    }
}

/// Returns the list in force, or null.
fn list(ratelimit: &Ratelimit<'_>) -> Value {
    ratelimit.json("list list").get(0).cloned().unwrap_or_default()
}

/// Waits until so many entries are in force, and returns how long that took.
fn wait_for(ratelimit: &Ratelimit<'_>, entries: u32) -> Duration {
    let begin = Instant::now();
    while list(ratelimit)["entries"].as_u64().unwrap_or(0) != u64::from(entries) {
        assert!(begin.elapsed() < PATIENCE, "{}: {}", list(ratelimit), ratelimit.json("status")["config"]["crowdsec"]);
        thread::yield_now();
    }
    begin.elapsed()
}

/// Returns how many of ten packets from an address the list drops.
fn dropped(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, source: impl Into<std::net::IpAddr>) -> u64 {
    let hits = || list(ratelimit)["hits"]["packets"].as_u64().unwrap();
    let before = hits();
    Flood::of(Frame::udp(source, 9)).send(sandbox, 10);
    hits() - before
}

/// Returns a file of decisions for the addresses from 11.0.0.0 on.
fn many() -> String {
    let lines = (0..MANY - 3).map(|at| format!("4h,ip,ban,{}\n", Ipv4Addr::from_bits((11 << 24) + at)));
    format!("duration,scope,type,value\n{}", lines.collect::<String>())
}

#[test]
#[ignore = "needs CrowdSec (32 MB): cargo xtask integrations"]
fn a_hundred_thousand_decisions_are_in_force_within_seconds_and_end_one_by_one() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let mut crowdsec = CrowdSec::start(&sandbox);
    let file = folder.add("decisions.csv", &many());
    crowdsec.cscli(&format!("decisions import -i {}", file.display()));
    crowdsec.cscli("decisions add --ip 10.9.0.66 -d 1h");
    crowdsec.cscli("decisions add --ip 10.9.0.66 -d 2h");
    crowdsec.cscli("decisions add --ip 2001:db8::66 -d 1h");
    crowdsec.cscli("decisions add --range 10.77.0.0/16 -d 1h");
    crowdsec.cscli("decisions add --ip 10.9.0.88 -d 1h -t captcha");
    let of_api = crowdsec.time_of_answer();

    let key = folder.add("key", "secret\n");
    let text = format!("interfaces = [\"eth0\"]\n[crowdsec]\nkey-file = \"{}\"\nevery = \"1s\"\n", key.display());
    folder.write(&text);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(daemon.line().contains("in force"));
    let begin = Instant::now();
    assert!(daemon.line().ends_with("left out, for example: type captcha"));
    assert!(daemon.line().ends_with("100001 decisions, 100000 entries in force"), "{}", list(&ratelimit));
    let time = begin.elapsed();
    println!("{MANY} decisions in force after {time:?}, of which the API needs about {of_api:?} to answer");
    assert!(time < of_api + IN_FORCE, "{time:?}, {of_api:?}");
    assert_eq!(list(&ratelimit)["origin"], "crowdsec");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 66]), 10);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 77, 1, 2]), 10);
    assert_eq!(dropped(&sandbox, &ratelimit, [11, 0, 0, 1]), 10);
    assert_eq!(dropped(&sandbox, &ratelimit, [0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x66]), 10);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 88]), 0);
    assert!(ratelimit.ok("why 10.9.0.66").contains("list crowdsec:bans: deny, set by crowdsec"));
    // An operator's allow wins.
    ratelimit.ok("allow add 11.0.0.1");
    assert_eq!(dropped(&sandbox, &ratelimit, [11, 0, 0, 1]), 0);

    // Of two decisions, one ends.
    let decisions = crowdsec.cscli("decisions list --ip 10.9.0.66 -o json");
    let alerts: Value = serde_json::from_slice(&decisions.stdout).unwrap();
    let id = alerts[0]["decisions"][0]["id"].clone();
    crowdsec.cscli(&format!("decisions delete --id {id}"));
    crowdsec.cscli("decisions delete --ip 2001:db8::66");
    let time = wait_for(&ratelimit, MANY - 1);
    println!("a deletion acts after {time:?}");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 66]), 10);
    crowdsec.cscli("decisions delete --ip 10.9.0.66");
    wait_for(&ratelimit, MANY - 2);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 66]), 0);

    // The daemon restarts while CrowdSec is away: the list stays, and the first answer brings the changes since.
    daemon.end();
    crowdsec.cscli("decisions delete --ip 11.0.0.0");
    crowdsec.end();
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    while !daemon.line().contains("cannot connect") {}
    assert_eq!(dropped(&sandbox, &ratelimit, [11, 0, 0, 2]), 10);
    let state = ratelimit.json("status")["config"]["crowdsec"].take();
    assert!(state["problem"].as_str().unwrap().contains("cannot connect"), "{state}");
    assert_eq!((&state["decisions"], &state["in_force"]), (&json!(null), &json!(list(&ratelimit)["entries"])));
    assert!(ratelimit.run("doctor").stdout.contains("crowdsec: "));
    crowdsec.run();
    wait_for(&ratelimit, MANY - 3);
    while !daemon.line().ends_with("the API answers again") {}
    while !daemon.line().contains("entries in force") {}

    // A decision ends by itself while CrowdSec is away.
    crowdsec.cscli("decisions add --ip 10.9.0.99 -d 4s");
    wait_for(&ratelimit, MANY - 2);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 99]), 10);
    crowdsec.end();
    wait_for(&ratelimit, MANY - 3);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 99]), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, [11, 0, 0, 2]), 10);
    assert!(daemon.line().ends_with("decisions in force stay until their ends"));
    daemon.end();
    ratelimit.ok("detach --all");
}
