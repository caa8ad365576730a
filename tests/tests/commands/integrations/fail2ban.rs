//! A real fail2ban with the action file of the package.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use ratelimit_tests::{Flood, Frame, PATIENCE, Process, Ratelimit, Sandbox, unpacked};
use serde_json::{Value, json};

/// The folder of fail2ban in the sandbox's own `/run`, which ends with the sandbox.
const FOLDER: &str = "/run/fail2ban";

/// A fail2ban with the jail `web`, which bans after two lines in its log, and three that commands fill: `long` and `short`
/// ban for an hour and for ten minutes, and `net` bans the /64 of an IPv6 address.
struct Fail2ban<'a> {
    sandbox: &'a Sandbox,
    ratelimit: &'a Ratelimit<'a>,
    process: Option<Process>,
}

impl<'a> Fail2ban<'a> {
    fn start(sandbox: &'a Sandbox, ratelimit: &'a Ratelimit<'a>) -> Self {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
        let action = fs::read_to_string(repository.join("dist/fail2ban/ratelimit.conf")).unwrap();
        let program = ratelimit.command("").get_program().to_str().unwrap().to_owned();
        let action = action.replace("ratelimit = ratelimit ", &format!("ratelimit = {program} "));
        let networks =
            action.replace("deny add <ip> ", "deny add <ip>/64 ").replace("deny del <ip> ", "deny del <ip>/64 ");
        let jail = |name: &str, time: &str, action: &str| {
            format!(
                "[{name}]\nenabled = true\nfilter = web\nbackend = polling\nlogpath = {FOLDER}/idle.log\nmaxretry = 2\nbantime = {time}\naction = {action}\n"
            )
        };
        let further = [
            jail("long", "1h", "ratelimit"),
            jail("short", "10m", "ratelimit"),
            jail("net", "999999999999", "networks"),
        ];
        let files = [
            ("action.d/ratelimit.conf", action),
            ("action.d/networks.conf", networks),
            (
                "filter.d/web.conf",
                "[Definition]\ndatepattern = {^LN-BEG}EPOCH\nfailregex = ^\\s*refused <HOST>$\n".to_owned(),
            ),
            (
                "fail2ban.conf",
                format!(
                    "[Definition]\nloglevel = INFO\nlogtarget = {FOLDER}/own.log\n\
                syslogsocket = auto\nsocket = {FOLDER}/sock\npidfile = {FOLDER}/pid\ndbfile = {FOLDER}/db\n\
                dbpurgeage = 1d\ndbmaxmatches = 10\n[Thread]\nstacksize = 0\n"
                ),
            ),
            (
                "jail.conf",
                format!(
                    "[web]\nenabled = true\nfilter = web\nbackend = polling\nlogpath = {FOLDER}/web.log\n\
                maxretry = 2\nusedns = no\nignoreself = false\nfindtime = 1h\nbantime = 1h\naction = ratelimit\n"
                ) + &further.concat(),
            ),
            ("web.log", String::new()),
            ("idle.log", String::new()),
        ];
        sandbox.victim(|| {
            for (name, text) in &files {
                let path = PathBuf::from(FOLDER).join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        });
        let mut fail2ban = Self { sandbox, ratelimit, process: None };
        fail2ban.run();
        fail2ban
    }

    /// Starts the server. It answers when this returns.
    fn run(&mut self) {
        let mut server = Self::program("fail2ban-server");
        server.args(["-f", "start"]).stdout(Stdio::null());
        self.process = Some(self.sandbox.start(server));
        self.wait("no answer", || self.sandbox.output(Self::program("fail2ban-client").arg("ping")).status.success());
    }

    fn program(name: &str) -> Command {
        let mut command = unpacked::program("fail2ban", name, "--version");
        command.args(["-c", FOLDER, "-s", &format!("{FOLDER}/sock"), "-p", &format!("{FOLDER}/pid")]);
        command
    }

    fn client(&self, words: &str) {
        let output = self.sandbox.output(Self::program("fail2ban-client").args(words.split(' ')));
        assert!(output.status.success(), "{words}: {output:?}\n{}", self.log());
    }

    /// Writes two lines with this address to the log of the jail, as of 15 minutes ago.
    fn offend(&self, address: &str) {
        self.sandbox.victim(|| {
            let mut log = fs::OpenOptions::new().append(true).open(format!("{FOLDER}/web.log")).unwrap();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - 900;
            write!(log, "{now} refused {address}\n{now} refused {address}\n").unwrap();
        });
    }

    /// Waits until exactly these sources are denied, and returns their rules.
    fn denied(&self, sources: &[&str]) -> Value {
        let list = || self.ratelimit.json("deny list");
        let is_so = || list().as_array().unwrap().iter().map(|rule| &rule["source"]).eq(sources.iter().copied());
        self.wait(&format!("not denied: {sources:?}"), is_so);
        list()
    }

    fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < PATIENCE, "{what}: {}", self.log());
            thread::yield_now();
        }
    }

    fn log(&self) -> String {
        self.sandbox.victim(|| fs::read_to_string(format!("{FOLDER}/own.log")).unwrap_or_default())
    }
}

#[test]
fn fail2ban_bans_and_unbans_at_the_card_and_leaves_rules_of_the_operator() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.8.0.1 10.9.0.2");
    let mut fail2ban = Fail2ban::start(&sandbox, &ratelimit);
    fail2ban.offend("10.9.0.66");
    fail2ban.offend("2001:db8::66");
    let rules = fail2ban.denied(&["10.8.0.1", "10.9.0.2", "10.9.0.66", "2001:db8::66"]);
    assert_eq!(rules[2]["comment"], json!("fail2ban web"));
    assert!((2_600..=2_700).contains(&rules[2]["expires_in_seconds"].as_u64().unwrap()), "{rules}");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    assert_eq!(ratelimit.json("deny list --hits")[2]["hits"]["dropped"]["packets"], json!(10));
    // A second ban is no error, and one of a denied source leaves its rule.
    fail2ban.client("set web banip 10.9.0.2");
    fail2ban.client("unban 10.9.0.66");
    fail2ban.client("unban 10.9.0.2");
    fail2ban.denied(&["10.8.0.1", "10.9.0.2", "2001:db8::66"]);
    // Bans return with fail2ban.
    fail2ban.client("stop");
    let _ = fail2ban.process.take().unwrap().wait();
    fail2ban.denied(&["10.8.0.1", "10.9.0.2"]);
    fail2ban.run();
    fail2ban.denied(&["10.8.0.1", "10.9.0.2", "2001:db8::66"]);
    // What this host needs is not banned, and that is no error.
    fail2ban.client("set web banip 10.9.0.1");
    fail2ban.client("set web banip 10.9.0.67");
    fail2ban.denied(&["10.8.0.1", "10.9.0.2", "10.9.0.67", "2001:db8::66"]);
    assert!(!fail2ban.log().contains("ERROR"), "{}", fail2ban.log());
    fail2ban.client("unban 10.9.0.1");
    fail2ban.client("unban 10.9.0.67");
    fail2ban.denied(&["10.8.0.1", "10.9.0.2", "2001:db8::66"]);
    // A longer rule of the operator stays.
    ratelimit.ok("deny add 10.9.0.3 --for 1d");
    fail2ban.client("set web banip 10.9.0.3");
    fail2ban.client("set web bantime -1");
    fail2ban.client("set web banip 10.9.0.2");
    fail2ban.client("set web banip 10.9.0.77");
    let rules = fail2ban.denied(&["10.8.0.1", "10.9.0.2", "10.9.0.3", "10.9.0.77", "2001:db8::66"]);
    assert_eq!((&rules[1]["comment"], &rules[2]["comment"]), (&json!(null), &json!(null)));
    assert!(rules[2]["expires_in_seconds"].as_u64().unwrap() > 80_000, "{rules}");
    assert_eq!(rules[3]["expires_in_seconds"], json!(null));
    fail2ban.client("unban --all");
    fail2ban.denied(&["10.8.0.1", "10.9.0.2", "10.9.0.3"]);
    let log = fail2ban.log();
    assert!(!log.contains("ERROR"), "{log}");
    // A rule allow stays, and the log says so.
    ratelimit.ok("allow add 10.9.0.88");
    fail2ban.offend("10.9.0.88");
    fail2ban.wait("no error", || fail2ban.log().contains("ERROR"));
    assert_eq!(ratelimit.json("allow list")[0]["source"], json!("10.9.0.88"));
    ratelimit.ok("detach --all");
}

#[test]
fn an_address_in_two_jails_is_denied_until_both_have_ended_its_ban() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let fail2ban = Fail2ban::start(&sandbox, &ratelimit);
    for (first, second) in [("long", "short"), ("short", "long")] {
        fail2ban.client("set long banip 203.0.113.7");
        fail2ban.client("set short banip 203.0.113.7");
        fail2ban.wait("one jail", || ratelimit.json("deny list")[0]["owners"][0]["comment"] == "fail2ban short");
        let rules = fail2ban.denied(&["203.0.113.7"]);
        assert_eq!(rules[0]["comment"], "fail2ban long");
        fail2ban.client(&format!("set {first} unbanip 203.0.113.7"));
        let rules = fail2ban.denied(&["203.0.113.7"]);
        assert_eq!((&rules[0]["comment"], &rules[0]["owners"]), (&json!(format!("fail2ban {second}")), &Value::Null));
        let left = rules[0]["expires_in_seconds"].as_u64().unwrap();
        assert!(if second == "long" { left > 3_500 } else { left <= 600 }, "{rules}");
        fail2ban.client(&format!("set {second} unbanip 203.0.113.7"));
        fail2ban.denied(&[]);
    }
    // Users ban the network of an attacker, for longer than can be counted.
    fail2ban.client("set net banip 2001:db8:7::99");
    let rules = fail2ban.denied(&["2001:db8:7::/64"]);
    assert_eq!(rules[0]["expires_in_seconds"], Value::Null);
    fail2ban.client("set net unbanip 2001:db8:7::99");
    fail2ban.denied(&[]);
    // An attacker who rotates addresses fills a network.
    for host in 1..=20 {
        fail2ban.client(&format!("set short banip 2001:db8:8::{host:x}"));
    }
    fail2ban.denied(&["2001:db8:8::/64"]);
    fail2ban.client("set short unbanip 2001:db8:8::3");
    fail2ban.client("reload --restart --unban short");
    fail2ban.denied(&[]);
    let log = fail2ban.log();
    assert!(!log.contains("ERROR"), "{log}");
    ratelimit.ok("detach --all");
}
