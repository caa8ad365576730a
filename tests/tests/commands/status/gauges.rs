//! State of the program in `status`: buckets, cells, clocks and memory.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, kernel_at_least, wait_until};
use serde_json::{Value, json};

fn flood(sandbox: &Sandbox, host: u16, packets: u64) {
    let [high, low] = host.to_be_bytes();
    Flood::of(Frame::udp([10, 9, high, low], 9)).send(sandbox, packets);
}

fn packets(status: &Value, reason: &str) -> u64 {
    status["reasons"][reason]["packets"].as_u64().unwrap()
}

#[test]
fn buckets_and_the_admission_budget_are_shown() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 4 --max-sources 1000 --admissions 50/s");
    let before = ratelimit.json("status")["admission"].clone();
    let cpus = before["cpus"].as_f64().unwrap();
    let expected = json!({
        "per_second_and_cpu": 50, "cpus": before["cpus"], "created": 0, "refused": 0, "failed": 0, "bans_failed": 0,
        "idle_at_full_budget_seconds": 1_000.0 / (50.0 * cpus), "idle_so_far_seconds": null,
    });
    assert_eq!(before, expected);
    for host in 1..=3 {
        flood(&sandbox, host, 10);
    }
    let status = ratelimit.json("status");
    assert_eq!((&status["admission"]["created"], packets(&status, "over-packets")), (&json!(3), 18));
    assert!(status["admission"]["idle_so_far_seconds"].as_f64().unwrap() > 0.0);
    let text = ratelimit.ok("status -v");
    assert!(text.contains("\nbuckets created: 3; packets dropped because none could be created: 0\n"), "{text}");
    let estimate = format!(
        "unused buckets stay for about {}s at the full budget (50/s per CPU, {cpus} CPUs), ",
        (20.0 / cpus).round().max(1.0)
    );
    assert!(
        text.contains(&estimate)
            && text.contains(
                " at the rate so far
"
            ),
        "{text}"
    );

    // Beyond the admission budget, packets above the cell's share are dropped.
    ratelimit.ok("attach eth0 --admissions 1/s");
    Flood::of(Frame::udp([10, 8, 0, 0], 9)).sources(500).send(&sandbox, 5_000);
    let status = ratelimit.json("status");
    let refused = packets(&status, "not-admitted");
    assert!(refused > 1_000 && status["admission"]["refused"] == refused, "{status}");
    ratelimit.ok("detach --all");
}

#[test]
fn crowded_cells_are_counted() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 10/s --burst 10 --cells 1");
    let front = || ratelimit.json("status")["front"].clone();
    let nothing = json!({"cells": 1, "crowded": 0, "displaced_refusals": 0});
    assert_eq!(front(), nothing);
    // A source alone in its cell owes at most its burst.
    flood(&sandbox, 1, 5_000);
    assert_eq!(front(), nothing);
    assert!(!ratelimit.ok("status").contains("crowded"));
    let crowd = Flood::of(Frame::udp([10, 9, 0, 1], 9)).sources(5).pace(5_000).start(&sandbox);
    wait_until("the cell is crowded", || front()["crowded"] == 1);
    let text = ratelimit.ok("status -v");
    assert!(text.contains("\ncells: 1, 1 of them shared by several sources over the default limit\n"), "{text}");
    crowd.stop();
    assert!(front()["displaced_refusals"].as_u64().unwrap() >= 4, "{}", front());
    // Without a limit there is no debt.
    ratelimit.ok("limit del default");
    assert_eq!(front()["crowded"], json!(null));
    ratelimit.ok("detach --all");
}

#[test]
fn without_cells_status_shows_no_cells() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0 --front off --sample off");
    assert!(!text.contains("unknown"), "{text}");
    flood(&sandbox, 1, 10);
    let status = ratelimit.json("status");
    assert_eq!((&status["front"], &status["unknown"], &status["sample"]), (&json!(null), &json!(null), &json!(false)));
    let admission = &status["admission"];
    assert_eq!((&admission["created"], &admission["per_second_and_cpu"]), (&json!(1), &json!(null)));
    assert_eq!(admission["idle_at_full_budget_seconds"], json!(null));
    let text = ratelimit.ok("status -v");
    assert!(text.contains("\ncells: off, every source has its own bucket\n"), "{text}");
    assert!(text.contains("\nsamples: not needed, because every packet is counted for its source\n"), "{text}");
    ratelimit.ok("detach --all");
}

#[test]
fn the_clock_of_each_limit_is_shown() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let clock = |key: &str| ratelimit.json("status")["clock"][key].clone();
    let tick = clock("tick_nanoseconds").as_u64().unwrap();
    assert!((1_000_000..=10_000_000).contains(&tick), "{tick}");
    assert_eq!((clock("default"), clock("coarse_rules"), clock("precise_rules")), (json!(null), json!(0), json!(0)));
    // Bursts of a hundred seconds, of a tenth of a second, and none.
    ratelimit.ok("limit set default --packets 10/s --burst 1000");
    ratelimit.ok("limit set 10.1.1.1 --packets 1000/s --burst 100");
    ratelimit.ok("limit set 10.1.0.0/16 --packets 1000/s --burst 100");
    ratelimit.ok("deny add 10.2.2.2");
    assert_eq!(
        (clock("default"), clock("coarse_rules"), clock("precise_rules")),
        (json!("coarse"), json!(1), json!(2))
    );
    // The burst of this parent lasts a second, so it uses the coarse clock too.
    ratelimit.ok("limit set default --packets 10/s --burst 1000 --parent all=500k/s");
    assert_eq!(
        (clock("default"), clock("coarse_rules"), clock("precise_rules")),
        (json!("coarse"), json!(1), json!(2))
    );
    let text = ratelimit.ok("status -v");
    let [before, after] =
        ["\nclock of the default limit: coarse (ticks of ", "; limits by clock: 1 coarse, 2 precise\n"];
    assert!(text.contains(before) && text.contains(after), "{text}");
    ratelimit.ok("limit set default --packets 1000/s --burst 100");
    let text = ratelimit.ok("status -v");
    let line = "\nclock of the default limit: precise; limits by clock: 0 coarse, 3 precise\n";
    assert!(text.contains(line), "{text}");
    ratelimit.ok("detach --all");
}

#[test]
fn the_maps_use_at_most_64_megabytes_by_default() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let memory = ratelimit.json("status")["memory"].clone();
    let maps = memory["maps"].as_array().unwrap();
    let bytes = |map: &Value| map["bytes"].as_u64().unwrap();
    assert_eq!(memory["bytes"], maps.iter().map(bytes).sum::<u64>());
    let of = |name: &str| maps.iter().find(|map| map["name"] == name).unwrap();
    assert_eq!((&of("FRONT")["entries"], &of("BUCKETS")["entries"]), (&json!(131_072), &json!(131_072)));
    assert!((8 << 20..11 << 20).contains(&bytes(of("FRONT"))), "{}", bytes(of("FRONT")));
    // Before Linux 6.4 the kernel's memory figures include unset rules, and keys that an array does not store.
    let lazy = bytes(of("SOURCE_RULES")) + bytes(of("PREFIX_RULES"));
    assert!(bytes(&memory) - lazy < 45_000_000, "{memory}");
    if kernel_at_least(6, 4) {
        assert!(bytes(&memory) <= 64_000_000, "{memory}");
    }
    let text = ratelimit.ok("status --verbose");
    assert!(
        text.contains("\nmap                      entries ") && text.lines().all(|line| line.len() <= 120),
        "{text}"
    );
    assert!(!ratelimit.ok("status").contains("FRONT"));
    ratelimit.ok("detach --all");
}

#[test]
fn unknown_and_known_sources_are_counted() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --unknown 10/s --cells 16384");
    let unknown = || ratelimit.json("status")["unknown"].clone();
    let proofs = json!({"by_connection": 0, "by_cookie": 0, "looked_up": 0, "not_looked_up": 0, "cookies": null});
    assert_eq!(unknown(), json!({"per_second": 10, "known": 0, "passed": 0, "refused": 0, "proofs": proofs}));
    Flood::of(Frame::udp([10, 8, 0, 0], 9)).sources(1_000).send(&sandbox, 1_000);
    let status = ratelimit.json("status");
    let known = &status["unknown"];
    let (passed, refused) = (known["passed"].as_u64().unwrap(), known["refused"].as_u64().unwrap());
    assert!((1..=100).contains(&passed) && passed + refused == 1_000, "{known}");
    assert_eq!((packets(&status, "within-limit"), packets(&status, "over-unknown")), (passed, refused));
    // A source whose packets pass in three seconds is known.
    let becomes_known = || {
        flood(&sandbox, 7, 1);
        unknown()["known"] == 1
    };
    wait_until("the source is known", becomes_known);
    assert!(ratelimit.ok("status").contains("\nunknown sources: 10/s in total\n"));
    let text = ratelimit.ok("status -v");
    assert!(text.contains("\nunknown sources: 10/s in total; ") && text.contains("; known sources: 1\n"), "{text}");
    ratelimit.ok("attach eth0 --unknown off");
    assert_eq!(unknown(), json!(null));
    ratelimit.ok("detach --all");
}

#[test]
fn a_learned_rate_is_shown_with_its_origin() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --unknown auto");
    let learned = || ratelimit.json("status")["unknown"]["learned"].clone();
    let fresh = json!({"learning": true, "calm_minutes": 0, "days": 0, "most_per_second": 0, "target_per_second": 1_000, "settling_minutes": 0});
    assert_eq!(learned(), fresh);
    // The first packet ends the minute before it.
    Flood::of(Frame::udp([10, 8, 0, 0], 9)).sources(1_000).send(&sandbox, 1_000);
    let line = "\nunknown sources: 100k/s in total, learning: 1 of 1440 calm minutes, the most 0/s\n";
    let text = ratelimit.ok("status");
    assert!(text.contains(line), "{text}");
    assert!(ratelimit.ok("why 10.9.0.5").contains("it shares 100k/s with all unknown sources"));
    let doctor = ratelimit.run("doctor eth0").stdout;
    assert!(
        doctor
            .contains("unknown-sources: limited to 100k/s in total, which is being learned: 1 of 1440 calm minutes\n"),
        "{doctor}"
    );
    // An operator who sets it again lets the program learn anew.
    ratelimit.ok("set --unknown off");
    ratelimit.ok("set --unknown auto");
    assert_eq!(learned(), fresh);
    ratelimit.ok("detach --all");
}
