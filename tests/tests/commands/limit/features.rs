//! Features of the program: a running program has only those that its rules need.

use aya::maps::{Array, Map, MapData};
use ratelimit_common::maps::control::{
    Control, FEATURE_ACTIONS, FEATURE_BANS, FEATURE_COSTS, FEATURE_ELASTIC, FEATURE_INTERFACES, FEATURE_LANES,
    FEATURE_PARENTS, FEATURE_REJECT, FEATURE_SERVICES, FEATURE_SHADOW, FEATURE_SLIDING_LOGS, FEATURE_SOFT,
    FEATURE_WINDOWS,
};
use ratelimit_tests::{Ratelimit, Sandbox};
use serde_json::{Value, json};

pub(crate) fn control(sandbox: &Sandbox) -> Control {
    sandbox.victim(|| {
        let data = MapData::from_pin("/sys/fs/bpf/ratelimit/CONTROL").unwrap();
        Array::<_, Control>::try_from(Map::Array(data)).unwrap().get(&0, 0).unwrap()
    })
}

pub(crate) fn features(sandbox: &Sandbox) -> u32 {
    control(sandbox).features
}

pub(crate) fn program(ratelimit: &Ratelimit<'_>, pins: &str) -> Value {
    ratelimit.json(&format!("status{pins}"))["interfaces"][0]["program_id"].clone()
}

/// Returns the size of the sliding log map, by both ways of showing it.
fn logs(ratelimit: &Ratelimit<'_>, pins: &str) -> u64 {
    let maps = ratelimit.json(&format!("status{pins}"))["memory"]["maps"].clone();
    let entries =
        maps.as_array().unwrap().iter().find(|map| map["name"] == "SLIDING_LOGS").unwrap()["entries"].as_u64();
    let table = ratelimit.ok(&format!("status -v{pins}"));
    let row = table.lines().find(|line| line.starts_with("SLIDING_LOGS ")).unwrap();
    assert_eq!(row.split_whitespace().nth(1), Some(entries.unwrap().to_string().as_str()), "{row}");
    entries.unwrap()
}

#[test]
fn the_first_rule_that_needs_a_feature_enables_it_and_the_last_one_disables_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --capacity 10k/s");
    // A limit beside the default has a lane.
    let without_lanes = features(&sandbox);
    ratelimit.ok("limit set 192.0.2.0/24 --packets 7/s");
    let plain = features(&sandbox);
    assert_eq!(plain, without_lanes | FEATURE_LANES);
    let all = FEATURE_WINDOWS
        | FEATURE_SLIDING_LOGS
        | FEATURE_SOFT
        | FEATURE_ELASTIC
        | FEATURE_ACTIONS
        | FEATURE_REJECT
        | FEATURE_PARENTS
        | FEATURE_COSTS
        | FEATURE_SHADOW
        | FEATURE_INTERFACES
        | FEATURE_BANS;
    assert_eq!(plain & all, 0);
    for (words, needed) in [
        ("--packets 5/s --algorithm fixed-window", FEATURE_WINDOWS),
        ("--packets 5/s --algorithm sliding-window", FEATURE_WINDOWS),
        ("--packets 5/s --algorithm sliding-log", FEATURE_SLIDING_LOGS),
        ("--packets 5/s --throttle soft=20%", FEATURE_SOFT),
        ("--packets 5/s --throttle elastic", FEATURE_ELASTIC | FEATURE_ACTIONS),
        ("--packets 5/s --ban 10m", FEATURE_BANS),
        ("--packets 5/s --over-limit shadow", FEATURE_ACTIONS),
        ("--packets 5/s --over-limit reject", FEATURE_ACTIONS | FEATURE_REJECT),
        ("--packets 5/s --parent all=9/s --over-limit reject", FEATURE_PARENTS | FEATURE_ACTIONS | FEATURE_REJECT),
    ] {
        let before = program(&ratelimit, "");
        ratelimit.ok(&format!("limit set 10.0.0.0/8 {words}"));
        assert_eq!(features(&sandbox) & all, needed, "{words}");
        let running = program(&ratelimit, "");
        assert_ne!(running, before, "{words}");
        // Neither a second rule of the kind nor the removal of the first one changes the program.
        ratelimit.ok(&format!("limit set default {words} --replace"));
        ratelimit.ok("limit del 10.0.0.0/8");
        assert_eq!((features(&sandbox) & all, program(&ratelimit, "")), (needed, running.clone()), "{words}");
        // The last rule ends by deletion, or by a plain rule in its place.
        ratelimit.ok("limit set default --packets 5/s --replace");
        assert_eq!(features(&sandbox), plain, "{words}");
        assert_ne!(program(&ratelimit, ""), running, "{words}");
        ratelimit.ok(&format!("limit set default {words} --replace"));
        assert_eq!(features(&sandbox) & all, needed, "{words}");
        ratelimit.ok("limit del default");
        assert_eq!(features(&sandbox), plain, "{words}");
    }
    // A rule of one kind replaces one of another kind.
    ratelimit.ok("limit set default --packets 5/s --algorithm sliding-log");
    ratelimit.ok("limit set default --packets 5/s --algorithm fixed-window --over-limit shadow --replace");
    assert_eq!(features(&sandbox) & all, FEATURE_WINDOWS | FEATURE_ACTIONS);
    ratelimit.ok("limit del default");
    ratelimit.ok("cost set udp/53 5");
    assert_eq!(features(&sandbox) & (all | FEATURE_SERVICES), FEATURE_COSTS | FEATURE_SERVICES);
    ratelimit.ok("cost del udp/53");
    ratelimit.ok("attach eth0 --shadow");
    assert_eq!(features(&sandbox), plain | FEATURE_SHADOW);
    ratelimit.ok("attach eth0 --shadow=off");
    assert_eq!(features(&sandbox), plain);
    ratelimit.ok("limit del 192.0.2.0/24");
    assert_eq!(features(&sandbox), without_lanes);
    ratelimit.ok("detach --all");
}

#[test]
fn the_sliding_log_map_is_large_only_while_a_limit_uses_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0 --max-sliding-logs 50");
    assert!(text.contains("\nsliding logs: 50, if a limit uses them\n"), "{text}");
    assert_eq!(logs(&ratelimit, ""), 1);
    ratelimit.ok("limit set 10.0.0.0/8 --packets 5/s --algorithm sliding-log");
    assert_eq!(logs(&ratelimit, ""), 50);
    ratelimit.ok("limit set default --packets 5/m,9/h --algorithm sliding-log");
    ratelimit.ok("limit del 10.0.0.0/8");
    assert_eq!(logs(&ratelimit, ""), 50);
    // The size applies at once if the map exists. Otherwise it is stored.
    ratelimit.ok("attach eth0 --max-sliding-logs 70");
    assert_eq!(logs(&ratelimit, ""), 70);
    ratelimit.ok("attach eth0");
    assert_eq!(logs(&ratelimit, ""), 70);
    ratelimit.ok("limit del default");
    assert_eq!(logs(&ratelimit, ""), 1);
    ratelimit.ok("attach eth0 --max-sliding-logs 90");
    assert_eq!(logs(&ratelimit, ""), 1);
    ratelimit.ok("attach eth0 --packets 5/s --algorithm sliding-log");
    assert_eq!(logs(&ratelimit, ""), 90);
    ratelimit.ok("limit set default --packets 5/s --algorithm sliding-window");
    assert_eq!(logs(&ratelimit, ""), 1);
    ratelimit.ok("detach --all");
    // The same holds if the first attach sets the limit.
    ratelimit.ok("attach eth0 --packets 5/s --algorithm sliding-log");
    assert_eq!(logs(&ratelimit, ""), 16_384);
    ratelimit.ok("detach --all");
}

#[test]
fn a_second_instance_does_not_change() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add eth1 type veth peer name far1");
    let second = " --pins /sys/fs/bpf/second";
    ratelimit.ok("attach eth0");
    ratelimit.ok(&format!("attach eth1 --packets 9/s --throttle soft=20% --max-sliding-logs 30{second}"));
    let state = || {
        let lists = ["limit list", "cost list", "deny list"].map(|list| ratelimit.json(&format!("{list}{second}")));
        let status = ratelimit.json(&format!("status{second}"));
        let shown = ["shadow", "replies", "interfaces"].map(|key| status[key].clone());
        (lists, shown, logs(&ratelimit, second))
    };
    let before = state();
    for words in [
        "limit set default --packets 5/s --algorithm sliding-log --over-limit reject --replace",
        "limit set 10.0.0.0/8 --packets 5/s --algorithm fixed-window --ban 10m",
        "attach eth0 --shadow --max-sliding-logs 40 --replies 3/s --capacity 5k/s",
        "cost set udp/53 9",
        "limit del default",
    ] {
        ratelimit.ok(words);
        assert_eq!(state(), before, "{words}");
    }
    // The first instance does not get a feature of the second one.
    ratelimit.ok(&format!("limit set default --packets 1/s --algorithm sliding-log --replace{second}"));
    assert_eq!((logs(&ratelimit, ""), logs(&ratelimit, second)), (1, 30));
    assert_eq!(ratelimit.json(&format!("cost list{second}")), json!([]));
    ratelimit.ok(&format!("detach --all{second}"));
    assert_eq!(ratelimit.json("limit list").as_array().unwrap().len(), 1);
    ratelimit.ok("detach --all");
}
