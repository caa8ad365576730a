//! A number that claims to be exact is what was sent, and one that samples made does not outrank another.

use std::{thread, time::Duration};

use ratelimit_tests::{Flood, Folder, Frame, Ratelimit, Sandbox};
use serde_json::Value;

/// Packets of each source, so many that all its samples are hardly ever as many.
const SENT: u64 = 700;
/// Sources of each situation.
const SOURCES: u8 = 12;

/// What an operator does before the traffic, after one half of it, and after all of it.
struct Situation {
    name: &'static str,
    attach: &'static str,
    before: &'static [&'static str],
    meanwhile: &'static [&'static str],
}

const SITUATIONS: [Situation; 23] = [
    situation("limit", "--packets 100k/s", &[], &[]),
    situation("limit that refuses", "--packets 1/h --burst 500", &[], &[]),
    situation("bytes", "--bytes 100MB/s", &[], &[]),
    situation("shadow", "--packets 1/h --burst 500 --shadow", &[], &[]),
    situation("limit in shadow", "--packets 1/h --burst 500 --over-limit shadow", &[], &[]),
    situation("elastic", "--packets 1/h --burst 500 --throttle elastic --capacity 1M/s", &[], &[]),
    situation("windows", "--packets 600/h --algorithm fixed-window", &[], &[]),
    situation("sliding log", "--packets 60/h --algorithm sliding-log", &[], &[]),
    situation("without cells", "--packets 1/h --burst 500 --front off", &[], &[]),
    situation("without a limit", "", &[], &[]),
    situation("ban", "--packets 1/h --burst 500 --ban 1m", &[], &[]),
    situation("no samples", "--packets 100k/s --sample off", &[], &[]),
    situation("IPv6 prefixes", "--packets 100k/s --ipv6-prefix 56", &[], &[]),
    situation("parent", "--packets 100k/s --parent all=10M/s", &[], &[]),
    situation("only a parent", "--parent /24=10M/s", &[], &[]),
    situation("soft", "--packets 1/h --burst 500 --throttle soft=50%", &[], &[]),
    situation("service", "--packets 100k/s", &["limit set default --service udp/9 --packets 1/h --burst 500"], &[]),
    situation("allowed later", "--packets 100k/s", &[], &["allow add 10.9.0.0/16", "allow add fd00:9::/32"]),
    situation("denied later", "--packets 100k/s", &[], &["deny add 10.9.0.0/16", "deny add fd00:9::/32"]),
    situation("listed later", "--packets 100k/s", &[], &["list set bad LIST"]),
    situation("limit deleted", "--packets 100k/s", &[], &["limit del default"]),
    situation("windows later", "--packets 100k/s", &[], &["limit set default --packets 1M/h --algorithm fixed-window"]),
    situation("two interfaces", "eth1 --packets 100k/s", &[], &[]),
];

const fn situation(
    name: &'static str,
    attach: &'static str,
    before: &'static [&'static str],
    meanwhile: &'static [&'static str],
) -> Situation {
    Situation { name, attach, before, meanwhile }
}

fn packets(count: &Value) -> u64 {
    count["packets"].as_u64().unwrap()
}

/// Returns the sources whose passed packets claim to be exact, and are not.
fn wrong(rows: &Value) -> Vec<String> {
    let is_wrong = |row: &&Value| {
        let refused = packets(&row["dropped"]) + packets(&row["would_drop"]);
        row["passed"]["estimated"] == false && packets(&row["passed"]) + refused != SENT
    };
    rows.as_array().unwrap().iter().filter(is_wrong).map(ToString::to_string).collect()
}

#[test]
fn passed_packets_that_claim_to_be_exact_are_what_was_sent() {
    let folder = Folder::new();
    let list = folder.add("bad.txt", "10.9.0.0/16\nfd00:9::/32\n");
    let mut all_wrong = Vec::new();
    for Situation { name, attach, before, meanwhile } in SITUATIONS {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        if attach.starts_with("eth1") {
            sandbox.add_link("eth1", "peer1");
        }
        ratelimit.ok(&format!("attach eth0 {attach}"));
        before.iter().for_each(|words| drop(ratelimit.ok(words)));
        let send = || {
            Flood::of(Frame::udp([10, 9, 0, 1], 9))
                .sources(SOURCES.into())
                .send(&sandbox, SENT / 2 * u64::from(SOURCES));
            Flood::of(Frame::udp([0xfd00, 9, 0, 0x100, 0, 0, 0, 1], 9)).send(&sandbox, SENT / 2);
        };
        send();
        let list = list.display().to_string();
        meanwhile.iter().for_each(|words| drop(ratelimit.ok(&words.replace("LIST", &list))));
        send();
        let rows = ratelimit.json("sources");
        let mut wrong: Vec<_> = wrong(&rows).into_iter().map(|row| format!("{name}: sources: {row}")).collect();
        // The same number has the same mark everywhere.
        for row in rows.as_array().unwrap() {
            let source = row["source"].as_str().unwrap();
            let address = source.split('/').next().unwrap();
            let service = if row["service"] == "any" { "" } else { " --service udp/9" };
            let why = ratelimit.json(&format!("why {address}{service}"));
            if why["passed"]["estimated"] != row["passed"]["estimated"] {
                wrong.push(format!("{name}: why: {} sources: {row}", why["passed"]));
            }
        }
        let text = ratelimit.ok("sources");
        let has_bare = text.split_whitespace().any(|word| word == "~");
        let is_any = rows.as_array().unwrap().iter().any(|row| row["passed"]["estimated"] == true);
        if has_bare || is_any != text.contains('~') {
            wrong.push(format!("{name}: {text}"));
        }
        all_wrong.extend(wrong);
        ratelimit.ok("detach --all");
    }
    assert!(all_wrong.is_empty(), "{}", all_wrong.join("\n"));
}

/// A flood of sources that send 10 packets per second each, and one that sends more, counted one by one.
struct Traffic<'a>(&'a Sandbox);

impl Traffic<'_> {
    fn during<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let slow = Flood::of(Frame::udp([10, 9, 1, 0], 9)).sources(200).pace(2_000).start(self.0);
        let real = Flood::of(Frame::udp([10, 9, 0, 66], 53)).pace(150).start(self.0);
        thread::sleep(Duration::from_millis(300));
        let done = work();
        assert!(slow.stop() > 0 && real.stop() > 0);
        done
    }
}

/// A parent also refuses packets of sources without a bucket, which nothing counts for the source.
#[test]
fn refused_packets_of_sources_beside_a_parent_do_not_claim_to_be_exact() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    for (options, is_estimate) in [("--packets 100/h", false), ("--packets 100/h --parent /24=150/h", true)] {
        ratelimit.ok(&format!("attach eth0 {options}"));
        for host in 1..=4 {
            Flood::of(Frame::udp([10, 9, 0, host], 9)).send(&sandbox, 200);
        }
        let rows = ratelimit.json("sources");
        let refused: Vec<_> = rows.as_array().unwrap().iter().filter(|row| packets(&row["dropped"]) > 0).collect();
        assert!(!refused.is_empty(), "{rows}");
        for row in refused {
            assert_eq!(row["dropped"]["estimated"], is_estimate, "{options}: {row}");
            let why = ratelimit.json(&format!("why {}", row["source"].as_str().unwrap()));
            assert_eq!(why["dropped"]["estimated"], is_estimate, "{options}: {why}");
            let is_exact = packets(&row["dropped"]) == 100;
            assert!(is_estimate || is_exact, "{options}: {row}");
        }
        ratelimit.ok("detach --all");
    }
}

fn start(ratelimit: &Ratelimit<'_>) {
    ratelimit.ok("attach eth0 --packets 100k/s");
    // Windows count each packet.
    ratelimit.ok("limit set default --service udp/53 --packets 1M/h --algorithm fixed-window");
}

#[test]
fn one_sample_outranks_no_source_that_sends_more() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    start(&ratelimit);
    Traffic(&sandbox).during(|| {
        for _ in 0..3 {
            let rows = ratelimit.json("sources --sort passed --during 1s");
            assert_eq!(rows[0]["source"], "10.9.0.66", "{rows}");
            let rate = rows[0]["per_second"]["passed"].as_u64().unwrap();
            assert!(rate > 0 && rows[0]["per_second"]["estimated"] == false, "{rows}");
        }
        let text = ratelimit.ok("sources --sort passed --during 1s -n 200");
        // Those of one sample show what they stay below.
        let rates = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
        let rates: Vec<String> =
            text.lines().skip(1).filter(|line| line.starts_with("10.")).filter_map(rates).collect();
        let bad = |rate: &String| rate.trim_start_matches('~').parse::<u64>().is_ok_and(|rate| rate > 250);
        assert!(!rates.iter().any(bad) && rates.iter().any(|rate| rate.starts_with('<')), "{text}");
        for _ in 0..20 {
            let worst = ratelimit.json("status")["worst"].take();
            let is_real = |row: &&Value| row["source"] == "10.9.0.66" && row["per_second"]["passed"] != 0;
            // It may have sent nothing in these 40 ms.
            let place = worst.as_array().unwrap().iter().position(|row| is_real(&row));
            assert!(place.is_none_or(|place| place == 0), "{worst}");
        }
    });
    ratelimit.ok("detach --all");
}
