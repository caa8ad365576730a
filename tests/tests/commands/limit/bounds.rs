//! Invalid limits, replies and settings: one line, and no change.

use ratelimit_tests::{Folder, Ratelimit, Sandbox};
use serde_json::Value;

/// Returns everything that commands can change.
fn state(ratelimit: &Ratelimit<'_>) -> Vec<Value> {
    let status = ratelimit.json("status");
    let mut state = ["limit list", "cost list", "deny list", "allow list"].map(|words| ratelimit.json(words)).to_vec();
    for key in ["interfaces", "shadow", "replies", "unknown", "malformed", "front", "memory"] {
        state.push(status[key].clone());
    }
    state
}

const WINDOW_PARENT: &str =
    "--parent needs token-bucket or leaky-bucket: choose one of these algorithms, or omit --parent";
const SOFT: &str = "--throttle soft needs --packets or --bytes, and cannot be used with --parent";
const BAN: &str = "--ban needs --packets or --bytes, and cannot be used with --parent";
const LITTLE: &str = "of this limit is less than one packet or a rate below 1/d: give a larger share";
const NO_CAPACITY: &str =
    "no interface has a capacity, which --throttle elastic goes by: `ratelimit attach IFACE --capacity RATE` first";
const NO_LIMIT: &str =
    "--algorithm, --throttle, --over-limit and --ban need a limit: also give --packets RATE or --bytes RATE";
const THROTTLE: &str = "for '--throttle <hard|soft=PERCENT|elastic>': expected hard, elastic, or soft with a share from 1% to 100%, such as soft=10% ";
const NO_BAN: &str = "--ban-after and --ban-cap need --ban: also give --ban DURATION";
const WINDOW: &str = "in a window of this length: give a smaller rate, or another --algorithm";

/// Returns options of `limit set default` and `attach eth0` with their error, without the hint to the help text.
fn refused() -> Vec<(&'static str, String)> {
    let plain = |words, line: &str| (words, line.to_owned());
    vec![
        plain("--packets 1/s,2/m,3/h", "a source has at most two limits: give --packets one or two rates"),
        plain(
            "--packets 1/s --packets 2/m --packets 3/h",
            "a source has at most two limits: give --packets one or two rates",
        ),
        plain(
            "--packets 1/s,2/m --bytes 1MB/s",
            "a source can have two limits: two of packets, or one of packets and one of bytes",
        ),
        plain(
            "--packets 1/s,",
            "invalid value '' for '--packets <RATE[,RATE]|off>': expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m ",
        ),
        plain(
            "--packets 5/s --burst 3 --algorithm fixed-window",
            "fixed-window has no burst: what its rate says may come at any time of a window. Leave --burst away",
        ),
        plain(
            "--packets 5/s --burst 3 --algorithm sliding-window",
            "sliding-window has no burst: what its rate says may come at any time of a window. Leave --burst away",
        ),
        plain(
            "--packets 5/s --queue 3 --algorithm sliding-log",
            "sliding-log has no burst: what its rate says may come at any time of a window. Leave --burst away",
        ),
        plain(
            "--packets 5/s --queue 3 --burst 4",
            "the argument '--burst <PACKETS|auto>' cannot be used multiple times ",
        ),
        plain("--packets 20M/s --algorithm sliding-window", &format!("sliding-window counts up to 16711679 {WINDOW}")),
        plain(
            "--packets 16711680/s --algorithm sliding-window",
            &format!("sliding-window counts up to 16711679 {WINDOW}"),
        ),
        plain(
            "--packets 5/s --bytes 1GB/s --algorithm sliding-window",
            &format!("sliding-window counts up to 16711679 {WINDOW}"),
        ),
        plain(
            "--bytes 1099511562240B/h --algorithm fixed-window",
            &format!("fixed-window counts up to 1099511562239 {WINDOW}"),
        ),
        plain("--packets 65/s --algorithm sliding-log", &format!("sliding-log counts up to 64 {WINDOW}")),
        plain("--packets 10/m,65/h --algorithm sliding-log", &format!("sliding-log counts up to 64 {WINDOW}")),
        plain(
            "--bytes 1MB/s --algorithm sliding-log",
            "sliding-log counts packets, not bytes: choose another --algorithm",
        ),
        plain(
            "--packets 5/s --bytes 1MB/s --algorithm sliding-log",
            "sliding-log counts packets, not bytes: choose another --algorithm",
        ),
        plain(
            "--packets 5/s --algorithm leaky",
            "invalid value 'leaky' for '--algorithm <NAME>': expected token-bucket, leaky-bucket, fixed-window, sliding-window or sliding-log ",
        ),
        plain("--algorithm sliding-log", NO_LIMIT),
        plain("--throttle soft=10%", NO_LIMIT),
        plain("--over-limit reject", NO_LIMIT),
        plain("--ban 10m", NO_LIMIT),
        plain(
            "--parent all=50/s --algorithm leaky-bucket",
            "--algorithm applies to the source's own limit: also give --packets RATE or --bytes RATE, or omit --algorithm",
        ),
        plain("--parent all=50/s --algorithm fixed-window", WINDOW_PARENT),
        plain("--packets 5/s --parent all=50/s --algorithm sliding-log", WINDOW_PARENT),
        plain("--packets 5/s --parent /24=50/s --algorithm sliding-window", WINDOW_PARENT),
        plain("--packets 5/s --throttle gentle", &format!("invalid value 'gentle' {THROTTLE}")),
        plain("--packets 5/s --throttle soft", &format!("invalid value 'soft' {THROTTLE}")),
        plain("--packets 5/s --throttle soft=0%", &format!("invalid value 'soft=0%' {THROTTLE}")),
        plain("--packets 5/s --throttle soft=101%", &format!("invalid value 'soft=101%' {THROTTLE}")),
        plain("--packets 5/s --throttle soft=10", &format!("invalid value 'soft=10' {THROTTLE}")),
        plain("--parent all=50/s --throttle soft=10%", SOFT),
        plain("--packets 5/s --parent all=50/s --throttle soft=10%", SOFT),
        plain("--packets 1/d --throttle soft=99%", &format!("99 % {LITTLE}")),
        plain("--packets 9/s --algorithm fixed-window --throttle soft=11%", &format!("11 % {LITTLE}")),
        plain(
            "--packets 5/s --over-limit kill",
            "invalid value 'kill' for '--over-limit <drop|reject|shadow>' [possible values: drop, reject, shadow] ",
        ),
        plain(
            "--packets 5/s --ban 10m --over-limit shadow",
            "--ban cannot be used with --over-limit shadow, which lets packets pass: omit one of the two options",
        ),
        plain("--packets 5/s --ban 10m --parent all=50/s", BAN),
        plain("--parent all=50/s --ban 10m", BAN),
        plain("--packets 5/s --ban-after 3", NO_BAN),
        plain("--packets 5/s --ban-cap 3m", NO_BAN),
        plain(
            "--packets 5/s --ban 10m --ban-after 0",
            "invalid value '0' for '--ban-after <N>': 0 is not in 1..=16777215 ",
        ),
        plain(
            "--packets 5/s --ban 10m --ban-cap 599s",
            "--ban-cap is shorter than --ban: give at least the time of --ban",
        ),
        plain(
            "--packets 5/s --ban 0s",
            "invalid value '0s' for '--ban <DURATION|off>': expected a time above 0, such as 90s, 10m, 2h or 7d ",
        ),
        plain("--packets 5/s --throttle elastic", NO_CAPACITY),
        plain("--parent all=50/s --packets 5/s --algorithm token-bucket --throttle elastic", NO_CAPACITY),
    ]
}

/// Options of `attach eth0` only.
const REFUSED_BY_ATTACH: [(&str, &str); 12] = [
    (
        "--capacity 0/s",
        "invalid value '0/s' for '--capacity <RATE|off>': expected a rate between 1/s and 100M/s, or off ",
    ),
    (
        "--capacity 59/m",
        "invalid value '59/m' for '--capacity <RATE|off>': expected a rate between 1/s and 100M/s, or off ",
    ),
    (
        "--capacity 100000001/s",
        "invalid value '100000001/s' for '--capacity <RATE|off>': expected a rate between 1/s and 100M/s, or off ",
    ),
    (
        "--capacity much",
        "invalid value 'much' for '--capacity <RATE|off>': expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m ",
    ),
    ("--capacity off --packets 5/s --throttle elastic", NO_CAPACITY),
    (
        "--replies 59/m",
        "invalid value '59/m' for '--replies <RATE|off>': expected a rate between 1/s and 100M/s, or off ",
    ),
    ("--shadow=maybe", "invalid value 'maybe' for '--shadow[=<on|off>]' [possible values: on, off] "),
    ("--shadow=on --shadow=off", "the argument '--shadow[=<on|off>]' cannot be used multiple times "),
    ("--max-sliding-logs 1", "invalid value '1' for '--max-sliding-logs <N>': 1 is not in 2..=16777216 "),
    (
        "--max-sliding-logs 16777217",
        "invalid value '16777217' for '--max-sliding-logs <N>': 16777217 is not in 2..=16777216 ",
    ),
    ("--max-sliding-logs many", "invalid value 'many' for '--max-sliding-logs <N>': expected a whole number "),
    ("--burst 7", "a limit needs --packets RATE, --bytes RATE or --parent SCOPE=RATE"),
];

/// Returns the full line. If the form of the words is wrong, it ends with a hint to this command's help.
fn whole(line: &str, command: &str) -> String {
    match line.strip_suffix(' ') {
        Some(form) => format!("ratelimit: {form} (see `ratelimit help {command}`)"),
        None => format!("ratelimit: {line}"),
    }
}

#[test]
fn invalid_limits_are_refused_in_one_line_and_change_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(
        "attach eth0 --packets 3/s --algorithm sliding-log --over-limit reject --replies 7/s --max-sliding-logs 50",
    );
    ratelimit.ok("limit set 10.0.0.0/8 --packets 9/m --throttle soft=50%");
    ratelimit.ok("cost set udp/53 7");
    let before = state(&ratelimit);
    for (words, line) in refused() {
        for command in ["limit set default --replace", "limit set 10.0.0.0/8 --service udp/53"] {
            assert_eq!(ratelimit.fails(&format!("{command} {words}")), whole(&line, "limit set"), "{command}");
        }
        assert_eq!(ratelimit.fails(&format!("attach eth0 {words}")), whole(&line, "attach"), "{words}");
        assert_eq!(state(&ratelimit), before, "{words}");
    }
    for (words, line) in REFUSED_BY_ATTACH {
        assert_eq!(ratelimit.fails(&format!("attach eth0 {words}")), whole(line, "attach"), "{words}");
        assert_eq!(state(&ratelimit), before, "{words}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_refused_first_attach_leaves_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let all = refused();
    let both = all.iter().map(|(words, line)| (*words, line.as_str())).chain(REFUSED_BY_ATTACH);
    for (words, line) in both {
        assert_eq!(ratelimit.fails(&format!("attach eth0 {words}")), whole(line, "attach"), "{words}");
        assert!(sandbox.pins().is_empty() && !sandbox.ip("link show").contains("xdp"), "{words}");
    }
}

/// An elastic limit needs a capacity. A failed attach does not remove the last one, and its removal is printed.
#[test]
fn removing_a_capacity_that_elastic_limits_use_is_reported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0 --capacity 2k/s --packets 5/s --throttle elastic");
    assert!(text.contains("\ncapacity: 2000/s on eth0\n") && !text.contains("elastic limits"), "{text}");
    let capacity = || ratelimit.json("status")["interfaces"][0].get("capacity").cloned();
    assert_eq!(capacity(), Some(2_000.into()));
    assert!(ratelimit.ok("status").lines().next().unwrap().ends_with(", capacity 2000/s"));
    let before = state(&ratelimit);
    let line = ratelimit.fails("attach eth0 --capacity off --packets 6/s --throttle elastic");
    assert_eq!(line, format!("ratelimit: {NO_CAPACITY}"));
    assert_eq!(state(&ratelimit), before);
    // Another capacity replaces it, even in the same command.
    ratelimit.ok("attach eth0 --capacity 100M/s --packets 6/s --throttle elastic");
    assert_eq!(capacity(), Some(100_000_000.into()));
    let text = ratelimit.ok("attach eth0 --capacity off");
    assert!(
        text.ends_with("capacity: none on eth0\nno interface has a capacity: elastic limits act as hard limits\n"),
        "{text}"
    );
    assert_eq!(capacity(), None);
    // A kept throttle needs no capacity, a given one does.
    ratelimit.ok("limit set default --packets 7/s");
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["throttle"], "elastic");
    ratelimit.ok_with("limit set - --packets 7/s", "10.0.0.1\n");
    let line = ratelimit.fails("limit set default --throttle elastic");
    assert_eq!(line, format!("ratelimit: {NO_CAPACITY}"));
    ratelimit.ok("limit set default --packets 6/s --replace");
    let text = ratelimit.ok("attach eth0 --capacity off");
    assert!(text.ends_with("capacity: none on eth0\n"), "{text}");
    ratelimit.ok("detach --all");
}

#[test]
fn a_burst_of_bytes_that_holds_no_whole_frame_is_named_with_the_smallest_that_does() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let joined = "  a burst of 43 is 65102 bytes, and frames on eth0 have up to 65549 bytes, where packets are joined: a source of such frames gets less than its rate; the smallest burst that reaches it is 87\n";
    let text = ratelimit.ok("attach eth0 --mode generic --bytes 64kB/s");
    assert!(text.contains(&format!("\n{joined}")), "{text}");
    assert!(ratelimit.ok("limit set 192.0.2.0/24 --bytes 64kB/s").contains(joined));
    assert!(!ratelimit.ok("limit set 192.0.2.0/24 --bytes 64kB/s --burst 87").contains("a burst of"));
    ratelimit.ok("detach --all");
    // A native program sees the frames that were sent.
    assert!(!ratelimit.ok("attach eth0 --bytes 64kB/s").contains("a burst of"));
    assert!(!ratelimit.ok("limit set 192.0.2.0/24 --bytes 1kB/s").contains("a burst of"));
    sandbox.ip("link set eth0 mtu 9000");
    let text = ratelimit.ok("limit set 192.0.2.0/24 --bytes 1kB/s --replace");
    let jumbo = "  a burst of 1 is 1514 bytes, and frames on eth0 have up to 9014 bytes: a source of such frames gets less than its rate; the smallest burst that reaches it is 12\n";
    assert!(text.contains(jumbo), "{text}");
    ratelimit.ok("detach --all");

    let folder = Folder::new();
    let file = |mode: &str| {
        format!("interfaces = [\"eth0\"]\n[interface.eth0]\nmode = \"{mode}\"\n[default]\nbytes = \"64kB/s\"\n")
    };
    for (mode, warns) in [("generic", true), ("auto", true), ("native", false)] {
        folder.write(&file(mode));
        let output = ratelimit.run(&format!("check {}", folder.file().display()));
        let warning = "default: a burst of 43 is 65102 bytes, and frames of joined packets have up to 65549 bytes: ";
        assert_eq!((output.status, output.stderr.contains(warning)), (0, warns), "{mode}: {output:?}");
    }
}
