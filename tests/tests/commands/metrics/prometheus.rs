//! A real Prometheus scrapes the daemon and evaluates the dashboard and the alerts.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use ratelimit_common::cells::refused_sample;
use ratelimit_tests::{Daemon, Flood, Folder, Frame, PATIENCE, Process, Ratelimit, Sandbox, stdin};
use serde_json::Value;

use super::{FILE, start};

const DASHBOARD: &str = include_str!("../../../../dist/grafana.json");
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist/ratelimit.rules.yml");
const ALERT_TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/alerts.yml");

/// Returns a Prometheus program, from `cargo xtask setup` or PATH.
fn program(name: &str) -> PathBuf {
    let executable = env::current_exe().unwrap();
    let unpacked = executable.ancestors().map(|folder| folder.join("prometheus/usr/bin").join(name));
    let path = unpacked.into_iter().find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name));
    let works = Command::new(&path).arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(works, "no {name}: run `cargo xtask setup`");
    path
}

/// Runs promtool, which must accept the input.
pub(crate) fn promtool(words: &[&str], input: &str) {
    let output = Command::new(program("promtool")).args(words).stdin(stdin(input)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {words:?}: {text}");
}

/// A Prometheus server in the victim's namespace that scrapes twice a second.
pub(crate) struct Prometheus<'a> {
    sandbox: &'a Sandbox,
    _process: Process,
}

impl<'a> Prometheus<'a> {
    /// Starts it with a file of alerts, and what to scrape.
    pub(crate) fn start(sandbox: &'a Sandbox, folder: &Path, rules: &str, scrape: &str) -> Self {
        let file = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}\n\
             rule_files: [{rules:?}]\n\
             scrape_configs: [{scrape}]\n"
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program("prometheus"));
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.args(["--web.listen-address=127.0.0.1:9090", "--log.level=warn"]);
        Self { sandbox, _process: sandbox.start(command) }
    }

    /// Queries the server's API. Returns nothing until the server is up.
    fn ask(&self, path: &str, query: &str) -> Option<Value> {
        let url = format!("http://127.0.0.1:9090/api/v1/{path}");
        let answer = self.sandbox.victim(|| {
            let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
            agent.get(&url).query("query", query).call().ok()?.body_mut().read_to_string().ok()
        });
        serde_json::from_str(&answer?).ok()
    }

    /// Repeats a query until the result matches.
    pub(crate) fn wait(&self, path: &str, query: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(path, query);
            match answer {
                Some(answer) if is_wanted(&answer["data"]) => return answer["data"].clone(),
                answer => assert!(Instant::now() < deadline, "{path} {query}: {answer:?}"),
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Waits until this expression has this value.
    pub(crate) fn reaches(&self, query: &str, value: u64) {
        let wanted = value.to_string();
        self.wait("query", query, |data| data["result"][0]["value"][1] == *wanted);
    }
}

/// Returns the expressions of all panels.
pub(crate) fn expressions(dashboard: &str) -> Vec<String> {
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().filter_map(|panel| panel["targets"].as_array());
    targets.flatten().map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// Returns every metric name in a text.
pub(crate) fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("ratelimit_") || word.starts_with("process_")).collect()
}

#[test]
fn prometheus_counts_every_packet_and_finds_every_series_of_the_dashboard_and_alerts() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let place = folder.file().parent().unwrap().to_owned();
    let token = place.join("token");
    let metrics =
        format!("[metrics]\nlisten = \"127.0.0.1:9464\"\ntoken-file = \"{}\"\nsources = 10\n", token.display());
    let feed = place.join("feed");
    fs::write(&feed, "192.0.2.0/24\n").unwrap();
    // The metrics of these need nobody who answers.
    let remote = format!("url = \"http://127.0.0.1:1/\"\ncopy = \"{}\"\n", place.join("copies/feed").display());
    let list =
        format!("[[list]]\nname = \"drop\"\nfile = \"{}\"\n[[list]]\nname = \"remote\"\n{remote}", feed.display());
    let fleet = "[fleet]\nengine = \"redis://127.0.0.1:1\"\n";
    let stops = format!("[stops]\nsocket = \"{}\"\n", place.join("stops").display());
    let crowdsec = format!("[crowdsec]\nurl = \"http://127.0.0.1:1\"\nkey-file = \"{}\"\n", token.display());
    let settings = "[settings]\nunknown = \"auto\"\nprove = \"tcp\"\n";
    sandbox.set_syn_cookies("2");
    let text = format!("{FILE}{settings}{metrics}{fleet}{list}{stops}{crowdsec}");
    let made = Command::new("install").args(["-m", "600", "/dev/null"]).arg(&token).status().unwrap();
    assert!(made.success());
    fs::write(&token, "correct-horse-battery-staple\n").unwrap();
    folder.write(&text);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    // In any order. Whether the engine of the fleet answers is another message at any time.
    let mut awaited =
        vec![": in force, ", "crowdsec: cannot connect", "list remote: http://127.0.0.1:1/ is not fetched"];
    while !awaited.is_empty() {
        let line = daemon.line();
        assert!(!line.is_empty(), "the daemon has ended");
        awaited.retain(|message| !line.contains(message));
    }
    let scrape = format!(
        "{{job_name: ratelimit, authorization: {{credentials_file: {token:?}}}, \
         static_configs: [{{targets: ['127.0.0.1:9464']}}]}}"
    );
    let server = Prometheus::start(&sandbox, &place, RULES, &scrape);
    server.wait("targets", "", |data| data["activeTargets"][0]["health"] == "up");

    let dropped = "sum(ratelimit_packets_total{verdict=\"drop\"})";
    server.reaches(dropped, 0);
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 100_004);
    server.reaches(dropped, 100_000);
    server.reaches("ratelimit_packets_total{verdict=\"pass\",reason=\"within-limit\"}", 4);
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 5);
    server.reaches(dropped, 100_005);
    // An estimate: a flood is counted by samples.
    let of_source = "ratelimit_source_packets_total{source=\"10.9.0.7\",service=\"any\",verdict=\"drop\"}";
    server.reaches(&format!("abs({of_source} - 100005) < bool {}", 2 * refused_sample::error(100_005)), 1);

    let expressions = expressions(DASHBOARD);
    assert!(expressions.len() > 30);
    let scrape = ratelimit.ok("metrics");
    let (exported, rules) = (names(&scrape), fs::read_to_string(RULES).unwrap());
    for text in expressions.iter().chain([&rules]) {
        let unknown: Vec<_> = names(text).difference(&exported).copied().collect();
        assert!(unknown.is_empty(), "{unknown:?} of {text}");
    }
    for expression in expressions {
        let query =
            expression.replace("$job", "ratelimit").replace("$instance", ".*").replace("$__rate_interval", "1m");
        assert!(!query.contains('$'), "{query}");
        // Series that exist only under conditions are checked again below. While the machine is too busy for a scrape, the
        // server has no series.
        let may_be_empty = query.contains("> 0");
        server
            .wait("query", &query, |data| data["result"].as_array().is_some_and(|all| may_be_empty || !all.is_empty()));
    }
    let by_reason = "sum by (reason) (rate(ratelimit_packets_total{verdict=\"drop\"}[1m])) > 0";
    let data = server.wait("query", by_reason, |data| data["result"][0].is_object());
    assert_eq!(data["result"][0]["metric"]["reason"], "over-packets");

    let groups = server.wait("rules", "", |data| !data.to_string().contains("\"health\":\"unknown\""));
    let rules = groups["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), fs::read_to_string(RULES).unwrap().matches("- alert:").count());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    drop(server);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn promtool_accepts_metrics_and_alerts() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let daemon = start(&sandbox, &ratelimit, &folder, &format!("{FILE}[metrics]\nsources = 10\n"));
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).sources(20).send(&sandbox, 200);
    let text = ratelimit.ok("metrics");
    promtool(&["check", "metrics"], &text);
    for name in names(&text) {
        for comment in ["HELP", "TYPE"] {
            assert!(text.matches(&format!("# {comment} {name} ")).count() == 1, "{comment} of {name}");
        }
    }
    daemon.end();
    ratelimit.ok("detach --all");
    promtool(&["check", "rules", RULES], "");
    promtool(&["test", "rules", ALERT_TESTS], "");
}
