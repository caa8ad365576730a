//! `doctor`: every check, with its exact text.

mod interfaces;
mod surroundings;
mod tables;
mod traffic;

use ratelimit_tests::{Output, Ratelimit, Sandbox, online_cpus};
use serde_json::Value;

/// Checks that depend on the test machine. Unit tests cover them.
const OF_THE_MACHINE: [&str; 3] = ["bpf-statistics", "clock-source", "jit"];

/// Runs `ratelimit doctor` and returns its paragraphs, without those that depend on the machine. Asserts the exit
/// status.
#[track_caller]
fn paragraphs(ratelimit: &Ratelimit<'_>, words: &str) -> Vec<String> {
    read(&ratelimit.run(&format!("doctor {words}")))
}

/// Splits the output into paragraphs.
#[track_caller]
fn read(output: &Output) -> Vec<String> {
    let Output { status, stdout, stderr } = output;
    let mut paragraphs: Vec<String> = Vec::new();
    for line in stdout.lines() {
        match paragraphs.last_mut() {
            Some(last) if line.starts_with(' ') => *last += &format!("\n{}", line.trim_start()),
            _ => paragraphs.push(line.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }
    let is_bad = |paragraph: &String| paragraph.starts_with("warning ") || paragraph.starts_with("error ");
    assert_eq!((*status, stderr.as_str()), (i32::from(paragraphs.iter().any(is_bad)), ""), "{stdout}");
    paragraphs.retain(|paragraph| OF_THE_MACHINE.iter().all(|check| !paragraph.contains(&format!(" {check}: "))));
    paragraphs.iter().map(|paragraph| without_time(paragraph)).collect()
}

/// Replaces the duration, which varies: `in 1.0 s` becomes `in a second`.
fn without_time(paragraph: &str) -> String {
    let time = paragraph.match_indices("in ").find_map(|(place, _)| {
        let seconds = paragraph[place + 3..].split_once(" s").map(|(seconds, _)| seconds)?;
        seconds.parse::<f64>().is_ok().then(|| format!("in {seconds} s"))
    });
    time.map_or_else(|| paragraph.to_owned(), |time| paragraph.replace(&time, "in a second"))
}

/// Returns the only paragraph with this title, such as `eth0, link`.
#[track_caller]
fn about(ratelimit: &Ratelimit<'_>, words: &str, what: &str) -> String {
    let paragraphs = paragraphs(ratelimit, words);
    let mut found = paragraphs
        .iter()
        .filter(|paragraph| paragraph.split_once(' ').is_some_and(|(_, rest)| rest.starts_with(&format!("{what}: "))));
    let only = found.next().filter(|_| found.next().is_none());
    assert!(only.is_some(), "no single paragraph about {what}: {paragraphs:#?}");
    only.unwrap().clone()
}

fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

#[test]
fn without_problems_each_check_is_one_line() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (kernel, queues) =
        (format!("ok kernel: {}", release()), format!("{0} receive queues for {0} CPUs", online_cpus()));
    let queues = if online_cpus() == 1 { "1 receive queue for 1 CPU".to_owned() } else { queues };
    let before = [
        "ok privileges: all necessary ones",
        &kernel,
        "ok instance: none: ratelimit is not attached in /sys/fs/bpf/ratelimit",
        "ok bpffs: mounted at /sys/fs/bpf",
        "ok daemon: none runs, and none is needed",
        "ok eth0, link: up",
        "ok eth0, native-xdp: its driver (veth) has native XDP",
        &format!("ok eth0, queues: {queues}"),
        "ok eth0, losses: none in a second",
        "ok firewall: no rule limits received packets",
    ];
    assert_eq!(paragraphs(&ratelimit, "eth0"), before);

    ratelimit.ok("attach eth0 --packets 1000/s --parent /48=5k/s --unknown auto");
    let (pins, links) = (sandbox.pins(), sandbox.ip("link show"));
    let found = paragraphs(&ratelimit, "");
    let mut while_attached = before.map(str::to_owned).to_vec();
    while_attached[2] = "ok instance: /sys/fs/bpf/ratelimit".to_owned();
    while_attached[6] = "ok eth0, native-xdp: attached, native (driver veth)".to_owned();
    let of_instance = [
        "ok traffic: too few packets arrived for a check (0 packets in a second)",
        "ok buckets: 0 of 131072 in use",
        "ok admissions: the budget for new buckets was never spent",
        "ok cells: 0 of 131072 are shared by several sources over the default limit",
        "ok unknown-sources: limited to 100k/s in total, which is being learned: 0 of 1440 calm minutes",
        "ok fail-open: the program decided about every packet",
        "ok ipv6-lines: the default has a wider limit for IPv6 lines",
        "ok own-connections: spared up to 1M/s from each source",
        "ok proofs: by established connections",
        "ok own-network: nothing denies this host's own network",
    ];
    while_attached.splice(9..9, of_instance.map(str::to_owned));
    assert_eq!(found, while_attached);
    // The doctor changes nothing.
    assert_eq!((sandbox.pins(), sandbox.ip("link show")), (pins, links));
    // A line with more than one IPv6 source is only a note, so the exit status stays.
    let note = "note ipv6-lines: the default limits each IPv6 /64, and has no wider limit for a line";
    for parents in ["", "--parent all=100k/s", "--parent /60=5k/s", "--parent /24=5k/s"] {
        ratelimit.ok(&format!("limit set default --packets 1000/s {parents} --replace"));
        let found = paragraphs(&ratelimit, "");
        assert!(found.iter().any(|paragraph| paragraph.starts_with(note)), "{parents}: {found:?}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn json_output_has_the_same_checks_with_names() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link set eth0 down");
    let output = ratelimit.run("doctor eth0 eth0 --json");
    assert_eq!(output.status, 1, "{output:?}");
    let findings: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    let of = |check: &str| {
        let found: Vec<&Value> = findings.iter().filter(|finding| finding["check"] == check).collect();
        assert_eq!(found.len(), 1, "{check}: {findings:?}");
        found[0].clone()
    };
    assert_eq!(
        of("link"),
        serde_json::json!({
            "check": "link", "severity": "warning", "interface": "eth0", "what": "down",
            "why": "No packet arrives.", "fix": "ip link set eth0 up",
        })
    );
    assert_eq!(
        of("privileges"),
        serde_json::json!({
            "check": "privileges", "severity": "ok", "interface": null, "what": "all necessary ones", "why": null, "fix": null,
        })
    );
    for check in [
        "kernel",
        "jit",
        "bpf-statistics",
        "clock-source",
        "bpffs",
        "instance",
        "daemon",
        "native-xdp",
        "queues",
        "losses",
        "firewall",
    ] {
        let finding = of(check);
        let severity = finding["severity"].as_str().unwrap();
        assert!(["ok", "note", "warning", "error"].contains(&severity), "{finding}");
    }
}
