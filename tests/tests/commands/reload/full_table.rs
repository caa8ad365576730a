//! A reload whose rules fit only after it deletes the previous ones.

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

/// Maximum number of prefixes with rules.
const PREFIXES: u32 = 262_144;

/// Prefixes of the file.
const OWN: u32 = 3_000;

#[test]
fn a_reload_replaces_the_rules_of_a_full_table() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(&file(20, OWN, "packets = \"5/s\""));
    let mut command = ratelimit.command(&format!("run -c {}", folder.file().display()));
    command.env("SSH_CONNECTION", "10.9.0.2 50000 10.9.0.1 22");
    let mut daemon = Daemon::by(&sandbox, command);
    assert!(daemon.line().contains("in force, rules: 3000 set, 0 deleted, 0 unchanged"));
    // The first attach has allowed the session.
    ratelimit.ok("allow del 10.9.0.2");
    let others: String = prefixes(30).take((PREFIXES - OWN) as usize).map(|prefix| prefix + "\n").collect();
    ratelimit.ok_with("deny add -", &others);
    assert_eq!(limited(&ratelimit), [(20, OWN)]);

    // Three refused files: one rule more than fits, and rules that would block the operator. They change nothing.
    let full = "nothing was changed: the table of prefix rules is full (262144): delete some first";
    folder.write(&file(21, OWN + 1, "packets = \"5/s\""));
    assert_eq!(daemon.line(), format!("ratelimit: {full}"));
    assert_eq!(limited(&ratelimit), [(20, OWN)]);
    let denying = file(21, OWN - 1, "packets = \"5/s\"") + "[[rule]]\nsource = \"10.9.0.0/24\"\npolicy = \"deny\"\n";
    folder.write(&denying);
    let line = daemon.line();
    assert!(line.contains("nothing was changed: an SSH session comes from 10.9.0.2"), "{line}");
    assert_eq!(limited(&ratelimit), [(20, OWN)]);

    folder.write(&file(21, OWN, "packets = \"5/s\""));
    assert!(daemon.line().contains("reloaded, rules: 3000 set, 3000 deleted, 0 unchanged"));
    assert_eq!(limited(&ratelimit), [(21, OWN)]);
    daemon.end();
    ratelimit.ok("detach --all");
}

/// Returns a file with rules for this many prefixes from this first byte on.
fn file(first: u8, count: u32, terms: &str) -> String {
    let rules =
        prefixes(first).take(count as usize).map(|prefix| format!("[[rule]]\nsource = \"{prefix}\"\n{terms}\n"));
    format!("interfaces = [\"eth0\"]\n{}", rules.collect::<String>())
}

fn prefixes(first: u8) -> impl Iterator<Item = String> {
    (0u32..).map(move |number| {
        let [byte, second, third, _] = (number << 8).to_be_bytes();
        format!("{}.{second}.{third}.0/24", first + byte)
    })
}

/// Returns the first bytes of limited prefixes with their counts.
fn limited(ratelimit: &Ratelimit<'_>) -> Vec<(u8, u32)> {
    let mut counts: Vec<(u8, u32)> = Vec::new();
    for row in ratelimit.json("limit list").as_array().unwrap() {
        let first = row["source"].as_str().unwrap().split('.').next().unwrap().parse().unwrap();
        match counts.last_mut().filter(|(last, _)| *last == first) {
            Some((_, count)) => *count += 1,
            None => counts.push((first, 1)),
        }
    }
    counts
}
