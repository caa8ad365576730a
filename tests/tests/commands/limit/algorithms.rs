//! Algorithms and actions over a limit: printed and listed as set, and valid as input again.

use ratelimit_tests::{Ratelimit, Sandbox, flat};
use serde_json::{Value, json};

/// Options of a limit, the printed sentence, and the listed row.
struct Given {
    words: &'static str,
    sentence: &'static str,
    listed: Value,
    /// Columns from packets to ban.
    columns: [&'static str; 8],
}

fn given(words: &'static str, sentence: &'static str, listed: Value, columns: [&'static str; 8]) -> Given {
    Given { words, sentence, listed, columns }
}

/// Returns one limit of each kind, and combinations.
fn all() -> Vec<Given> {
    vec![
        given(
            "--packets 10/m,500/h",
            "10/m,500/h per source, burst 10",
            json!({"packets": "10/m,500/h", "burst": 10}),
            ["10/m,500/h", "-", "10", "token-bucket", "hard", "drop", "-", "-"],
        ),
        given(
            "--packets 10/m,500/h --burst 4",
            "10/m,500/h per source, burst 4",
            json!({"packets": "10/m,500/h", "burst": 4}),
            ["10/m,500/h", "-", "4", "token-bucket", "hard", "drop", "-", "-"],
        ),
        given(
            "--packets 50/s --bytes 1MB/s --algorithm leaky-bucket --queue 7",
            "50/s, 1MB/s per source, queue 7, leaky-bucket",
            json!({"packets": "50/s", "bytes": "1MB/s", "burst": 7, "algorithm": "leaky-bucket"}),
            ["50/s", "1MB/s", "7", "leaky-bucket", "hard", "drop", "-", "-"],
        ),
        given(
            "--packets 1M/d --bytes 5GB/h --algorithm fixed-window",
            "1M/d, 5GB/h per source, fixed-window",
            json!({"packets": "1M/d", "bytes": "5GB/h", "burst": 0, "algorithm": "fixed-window"}),
            ["1M/d", "5GB/h", "-", "fixed-window", "hard", "drop", "-", "-"],
        ),
        given(
            "--bytes 10MB/s --algorithm sliding-window",
            "10MB/s per source, sliding-window",
            json!({"packets": null, "bytes": "10MB/s", "burst": 0, "algorithm": "sliding-window"}),
            ["-", "10MB/s", "-", "sliding-window", "hard", "drop", "-", "-"],
        ),
        given(
            "--packets 10/m,64/h --algorithm sliding-log --over-limit reject",
            "10/m,64/h per source, sliding-log, reject",
            json!({"packets": "10/m,64/h", "burst": 0, "algorithm": "sliding-log", "over_limit": "reject"}),
            ["10/m,64/h", "-", "-", "sliding-log", "hard", "reject", "-", "-"],
        ),
        given(
            "--packets 1000/s --throttle soft=10%",
            "1000/s per source, burst 1000, soft=10%",
            json!({"packets": "1000/s", "burst": 1_000, "throttle": "soft=10%"}),
            ["1000/s", "-", "1000", "token-bucket", "soft=10%", "drop", "-", "-"],
        ),
        given(
            "--packets 1000/s --throttle elastic --over-limit shadow",
            "1000/s per source, burst 1000, elastic, shadow",
            json!({"packets": "1000/s", "burst": 1_000, "throttle": "elastic", "over_limit": "shadow"}),
            ["1000/s", "-", "1000", "token-bucket", "elastic", "shadow", "-", "-"],
        ),
        given(
            "--packets 9/s --ban 10m",
            "9/s per source, burst 9, ban 10m",
            json!({"packets": "9/s", "burst": 9, "ban": {"seconds": 600, "after": 1, "cap_seconds": 4_800}}),
            ["9/s", "-", "9", "token-bucket", "hard", "drop", "-", "10m"],
        ),
        given(
            "--packets 9/m,99/h --algorithm fixed-window --throttle soft=100% --over-limit reject --ban 90s --ban-after 5 --ban-cap 2h",
            "9/m,99/h per source, fixed-window, soft=100%, reject, ban 1m30s after 5 up to 2h",
            json!({
                "packets": "9/m,99/h", "burst": 0, "algorithm": "fixed-window", "throttle": "soft=100%",
                "over_limit": "reject", "ban": {"seconds": 90, "after": 5, "cap_seconds": 7_200},
            }),
            ["9/m,99/h", "-", "-", "fixed-window", "soft=100%", "reject", "-", "1m30s after 5 up to 2h"],
        ),
        given(
            "--packets 5/s --throttle elastic --over-limit reject --parent /24=20/s --algorithm leaky-bucket",
            "5/s per source, queue 5, leaky-bucket, elastic, reject; parents /24=20/s",
            json!({
                "packets": "5/s", "burst": 5, "algorithm": "leaky-bucket", "throttle": "elastic", "over_limit": "reject",
                "parents": ["/24=20/s"],
            }),
            ["5/s", "-", "5", "leaky-bucket", "elastic", "reject", "/24=20/s", "-"],
        ),
        given(
            "--throttle hard --over-limit drop --parent all=20/s",
            "no limit per source; parents all=20/s",
            json!({"packets": null, "burst": 0, "parents": ["all=20/s"]}),
            ["-", "-", "-", "token-bucket", "hard", "drop", "all=20/s", "-"],
        ),
    ]
}

/// Returns the JSON row of a rule. Missing fields have their default.
fn row(target: &str, listed: &Value) -> Value {
    let mut row = json!({
        "source": target, "service": "any", "packets": null, "bytes": null, "burst": 0, "algorithm": "token-bucket",
        "throttle": "hard", "over_limit": "drop", "parents": [], "ban": null, "expires_in_seconds": null, "covers": null, "covered_by": null, "origin": "command",
        "policy": null, "comment": null,
    });
    let fields = row.as_object_mut().unwrap();
    listed.as_object().unwrap().iter().for_each(|(key, value)| drop(fields.insert(key.clone(), value.clone())));
    row
}

/// Returns the options that a JSON row stands for.
fn words_of(row: &Value) -> String {
    let mut words = String::new();
    for (option, key) in [
        ("packets", "packets"),
        ("bytes", "bytes"),
        ("algorithm", "algorithm"),
        ("throttle", "throttle"),
        ("over-limit", "over_limit"),
    ] {
        // A limit with only parents has no algorithm.
        if let Some(text) = row[key].as_str().filter(|_| key != "algorithm" || row["packets"] != row["bytes"]) {
            words += &format!(" --{option} {text}");
        }
    }
    if row["burst"] != 0 {
        words += &format!(" --burst {}", row["burst"]);
    }
    for parent in row["parents"].as_array().unwrap() {
        words += &format!(" --parent {}", parent.as_str().unwrap());
    }
    if let Some(ban) = row.get("ban").filter(|ban| !ban.is_null()) {
        let [seconds, after, cap] = ["seconds", "after", "cap_seconds"].map(|key| &ban[key]);
        words += &format!(" --ban {seconds}s --ban-after {after} --ban-cap {cap}s");
    }
    words
}

/// Splits the second line of a table at the columns of its head.
fn cells(table: &str) -> Vec<String> {
    let mut lines = table.lines();
    let (head, line) = (lines.next().unwrap(), lines.next().unwrap());
    let names = [
        "source",
        "service",
        "packets",
        "bytes",
        "burst",
        "algorithm",
        "throttle",
        "over limit",
        "parents",
        "ban",
        "expires",
        "origin",
    ];
    // Two spaces follow each column title, except the last.
    let begins = names.map(|name| format!("{head}  ").find(&format!("{name}  ")).unwrap());
    // Numbers are right-aligned with their title.
    let ends = begins.iter().skip(1).copied().chain([line.len()]);
    begins.iter().zip(ends).map(|(begin, end)| line[*begin..end].trim().to_owned()).collect()
}

/// Where limits stay that need every feature.
const KEPT: &str = "240.0.0.";

/// Sets a limit of each kind, so that no later change replaces the program.
fn keep_features(ratelimit: &Ratelimit<'_>) {
    for (at, Given { words, .. }) in all().iter().enumerate() {
        // A parent that is a prefix needs a prefix.
        let bits = if words.contains("/24") { 24 } else { 32 };
        let last = if bits == 24 { 0 } else { at + 1 };
        ratelimit.ok(&format!("limit set {KEPT}{last}/{bits} {words}"));
    }
}

/// Returns the other limits.
fn listed(ratelimit: &Ratelimit<'_>) -> Value {
    let mut rows = ratelimit.json("limit list");
    rows.as_array_mut().unwrap().retain(|row| !row["source"].as_str().unwrap().starts_with(KEPT));
    rows.as_array_mut().unwrap().drain(..).map(flat).collect()
}

#[test]
fn every_kind_of_limit_is_printed_and_listed_as_set_and_can_be_set_again() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --capacity 10k/s");
    keep_features(&ratelimit);
    for Given { words, sentence, listed: fields, columns } in all() {
        for target in ["default", "10.0.0.0/8", "203.0.113.7"] {
            if target == "203.0.113.7" && words.contains("/24") {
                continue;
            }
            let expected = row(target, &fields);
            assert_eq!(ratelimit.ok(&format!("limit set {target} {words}")), format!("{target}: {sentence}\n"));
            assert_eq!(listed(&ratelimit), json!([expected]), "{words}");
            let cells = cells(&ratelimit.ok("limit list"));
            assert_eq!((cells[0].as_str(), &cells[2..10]), (target, &columns.map(str::to_owned)[..]), "{words}");
            ratelimit.ok(&format!("limit del {target}"));
            assert_eq!(listed(&ratelimit), json!([]));
            if target == "default" {
                continue;
            }
            // The listed options set the same limit again.
            let again = words_of(&expected);
            let mut changed = flat(ratelimit.json(&format!("limit set {target}{again}")));
            assert_eq!(changed.as_object_mut().unwrap().remove("replaced"), Some(json!(null)));
            assert_eq!((&changed, &listed(&ratelimit)[0]), (&expected, &expected), "{words}: {again}");
            ratelimit.ok(&format!("limit del {target}"));
        }
    }
    ratelimit.ok("detach --all");
}

#[test]
fn attach_accepts_the_same_options_and_prints_the_same() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    for (at, Given { words, sentence, listed, .. }) in all().into_iter().enumerate() {
        // The first attach and a later one, in turn.
        if at % 2 == 1 {
            ratelimit.ok("attach eth0");
        }
        let text = ratelimit.ok(&format!("attach eth0 --capacity 10k/s {words}"));
        let expected = format!("default: {sentence}\ncapacity: 10000/s on eth0\n");
        assert!(text.contains(&expected), "{words}: {text}");
        let limit = flat(ratelimit.json("limit list")[0].take());
        assert_eq!(limit, row("default", &listed), "{words}");
        ratelimit.ok("detach --all");
    }
}

#[test]
fn a_limit_replaces_one_of_any_other_kind() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --capacity 10k/s --packets 77/s");
    keep_features(&ratelimit);
    for Given { words, sentence, listed: fields, .. } in all() {
        let text = ratelimit.ok(&format!("limit set default {words} --replace"));
        assert_eq!(text, format!("default: {sentence} (replaced: 77/s)\n"));
        assert_eq!(listed(&ratelimit), json!([row("default", &fields)]), "{words}");
        let replaced = ratelimit.json("limit set default --packets 77/s --replace")["replaced"].clone();
        for key in ["algorithm", "throttle", "over_limit"] {
            let unusual = fields[key].as_str();
            assert!(unusual.is_none_or(|word| replaced.as_str().unwrap().contains(word)), "{words}: {replaced}");
        }
        assert_eq!(listed(&ratelimit), json!([row("default", &json!({"packets": "77/s", "burst": 77}))]));
    }
    ratelimit.ok("detach --all");
}
