//! docs/schema describes the JSON of every command.

use std::{collections::BTreeSet, process::Command};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox, schema};
use serde_json::{Value, json};

/// Commands without JSON: the daemon, the live screen, completions and manual pages.
const WITHOUT_JSON: [&str; 6] = ["completions", "help", "manual", "run", "serve", "top"];

/// Returns the commands that a page of the help lists.
fn listed(ratelimit: &Ratelimit<'_>, page: &str) -> Vec<String> {
    let help = ratelimit.ok(page);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Commands that need a server: the tests of fleets run them.
const WITH_SERVER: &str = "fleet-rules";

/// Returns all commands, by their names in the schema.
fn commands(ratelimit: &Ratelimit<'_>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for command in listed(ratelimit, "help").into_iter().filter(|name| !WITHOUT_JSON.contains(&name.as_str())) {
        let below = listed(ratelimit, &format!("help {command}"));
        if below.is_empty() {
            all.insert(command);
            continue;
        }
        for name in below.iter().filter(|name| *name != "help").map(|name| format!("{command}-{name}")) {
            if name == WITH_SERVER {
                let deepest = listed(ratelimit, &format!("help {}", name.replace('-', " ")));
                all.extend(deepest.iter().filter(|below| *below != "help").map(|below| format!("{name}-{below}")));
            } else {
                all.insert(name);
            }
        }
    }
    all
}

/// Runs a command, whose output is checked with the schema. Returns its name in the schema.
fn run(ratelimit: &Ratelimit<'_>, words: &str, input: Option<&str>) -> String {
    let words = format!("{words} --json");
    let output = input.map_or_else(|| ratelimit.run(&words), |input| ratelimit.run_with(&words, input));
    assert!(output.status < 2 && !output.stdout.is_empty(), "{words}: {output:?}");
    let mut names = words.split_whitespace();
    let (first, second) = (names.next().unwrap(), names.next().unwrap());
    if schema::document()["$defs"].get(first).is_some() { first.to_owned() } else { format!("{first}-{second}") }
}

#[test]
fn the_output_of_every_command_matches_the_schema() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let file = folder.file();
    let fleet = "[fleet]\nengine = \"redis://127.0.0.1:1\"\n";
    let rules = "[policy.web]\npackets = \"50/s\"\n[default]\npackets = \"1/h\"\n";
    folder.write(&format!("interfaces = [\"eth0\"]\n{rules}{fleet}"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &file);
    daemon.line();
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 20);
    Flood::of(Frame::udp([0xfd00, 9, 0, 7, 0, 0, 0, 1], 9)).send(&sandbox, 3);
    let file = file.display();
    let check = format!("check {file} --host");
    let with_daemon = ["reload", "metrics", &check, "status", "fleet status"];
    let mut seen: BTreeSet<String> = with_daemon.iter().map(|words| run(&ratelimit, words, None)).collect();
    folder.write("interfaces = [\"eth0\"]\nunknown-key = 1\n");
    // The first line is about the requested reload.
    while !daemon.line().contains("unknown-key") {}
    seen.extend([format!("check {file}"), "status -v".to_owned()].iter().map(|words| run(&ratelimit, words, None)));
    daemon.end();
    let set = "table ip t { set imported { type ipv4_addr; elements = { 10.6.0.1 }; }; }";
    assert!(sandbox.output(Command::new("nft").arg(set)).status.success());

    let addresses = "10.3.0.1\n10.3.0.2\nnonsense\n";
    for (words, input) in [
        ("attach eth0 --packets 10/m,500/h --ban 10m --capacity 1M/s --confirm 1h", None),
        ("confirm", None),
        ("confirm", None),
        ("set --shadow on --unknown auto", None),
        ("set --shadow on", None),
        ("upgrade", None),
        ("limit set 10.0.0.0/8 --packets 5/s --bytes 1MB/s --parent /24=1k/s --for 1h --comment one", None),
        ("limit set 10.1.0.1 10.1.0.2 --packets 5/s --service udp/53", None),
        ("limit set - --packets 6/s --skip-bad", Some(addresses)),
        ("limit set - --packets 6/s --skip-bad", Some("nonsense\n")),
        ("limit list", None),
        ("limit del 10.1.0.1 10.9.9.9 --service udp/53", None),
        ("limit del 10.99.0.1", None),
        ("limit del - --skip-bad", Some(addresses)),
        ("allow add 10.2.0.0/16 --comment two", None),
        ("allow add - --skip-bad", Some(addresses)),
        ("allow list", None),
        ("allow del 10.2.0.0/16", None),
        ("allow del 10.2.0.0/16 --if-exists", None),
        ("deny add 10.0.0.0/8 --for 1h", None),
        ("deny add - --skip-bad", Some(addresses)),
        ("deny list", None),
        ("limit list", None),
        ("deny del 10.0.0.0/8", None),
        ("list set drop -", Some("10.4.0.0/16\n2001:db8::/32\n")),
        ("list set slow - --packets 5/s", Some("10.5.0.0/16\n")),
        ("list set drop - --for 1h", Some("10.4.0.0/16\nnonsense\n")),
        ("list import nft imported", None),
        ("list list", None),
        ("list show drop --entries", None),
        ("list show slow", None),
        ("list show none", None),
        ("cost set tcp-syn 10", None),
        ("cost list", None),
        ("cost del tcp-syn", None),
        ("cost del tcp-syn", None),
        ("save", None),
        ("doctor eth0", None),
        ("why 10.4.0.1", None),
        ("why 10.5.0.1 --service udp/53", None),
        ("why fd00:9:0:7::1", None),
        ("sources", None),
        ("sources --during 1s -n 1", None),
        ("status", None),
        ("suggest --for 1s", None),
        ("list del drop", None),
        ("list del drop", None),
        ("detach eth0", None),
        ("status", None),
        ("detach --all", None),
    ] {
        seen.insert(run(&ratelimit, words, input));
    }
    // The tests of `serve` run them with a server.
    seen.extend(["list", "get", "set", "del", "log"].map(|name| format!("rules-{name}")));
    // `events` does not end by itself, `usage` needs a server, and `replay` a capture. Their own tests run them.
    seen.extend(["events", "replay", "usage"].map(str::to_owned));
    let mut commands = commands(&ratelimit);
    commands.retain(|name| !name.starts_with(WITH_SERVER));
    assert_eq!(seen, commands);
}

#[test]
fn the_schema_describes_all_commands_and_nothing_else() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let defined = schema::document()["$defs"].as_object().unwrap();
    let commands = commands(&ratelimit);
    assert!(commands.iter().all(|command| defined.contains_key(command)), "{commands:?}");
    // What is no command is used by one.
    let text = schema::document().to_string();
    for name in defined.keys().filter(|name| !commands.contains(*name)) {
        assert!(text.contains(&format!("\"#/$defs/{name}\"")), "{name} is not used");
    }
}

#[test]
fn the_schema_refuses_unknown_and_missing_fields() {
    let limit = json!({
        "source": "default", "service": "any", "origin": "command", "comment": null, "covers": null, "covered_by": null,
        "expires_in_seconds": null,
        "policy": {
            "text": "1/s", "kind": "limit", "name": null, "packets": [{"amount": 1, "seconds": 1, "text": "1/s"}],
            "bytes": null, "burst": 1, "algorithm": "token-bucket", "throttle": "hard", "over_limit": "drop", "ban": null,
            "parents": [],
        },
    });
    let is_good = |row: &Value| std::panic::catch_unwind(|| schema::check_value("limit-list", &json!([row]))).is_ok();
    assert!(is_good(&limit));
    let mut more = limit.clone();
    more["policy"]["more"] = json!(1);
    assert!(!is_good(&more));
    let mut less = limit;
    less.as_object_mut().unwrap().remove("comment");
    assert!(!is_good(&less));
}
