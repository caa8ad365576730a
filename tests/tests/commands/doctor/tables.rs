//! Free space in the tables.

use std::time::Instant;

use ratelimit_tests::{Flood, Frame, PATIENCE, Ratelimit, Sandbox, has_two_cpus};
use serde_json::Value;

use super::{about, paragraphs};

#[test]
fn a_full_bucket_table_is_reported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 10/s --front off --max-sources 10000");
    Flood::of(Frame::udp([10, 8, 0, 0], 9)).sources(40_000).send(&sandbox, 40_000);
    let found = about(&ratelimit, "", "buckets");
    let used: u32 = found.split(' ').nth(2).unwrap().parse().unwrap();
    assert!((7_500..=10_000).contains(&used), "{found}");
    let expected = format!("warning buckets: {used} of 10000 in use, and an unused one stays for about ");
    assert!(found.starts_with(&expected), "{found}");
    let rest = "\nEach new bucket replaces the one that was unused for longest. Windows, sliding logs and counters of that source start again.\nfix: ratelimit set --max-sources 40000";
    assert!(found.ends_with(rest), "{found}");
    ratelimit.ok("attach eth0 --max-sources 40000");
    let found = about(&ratelimit, "", "buckets");
    assert!(found.starts_with("ok buckets: ") && found.ends_with(" of 40000 in use"), "{found}");
    ratelimit.ok("detach --all");
}

#[test]
fn a_spent_admission_budget_is_reported_while_it_lasts() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 4 --admissions 1/s");
    let flood = Flood::of(Frame::udp([10, 8, 0, 0], 9)).sources(500).pace(5_000).start(&sandbox);
    // The first packets of a source need no bucket.
    while ratelimit.json("status")["admission"]["refused"] == 0 {}
    let found = about(&ratelimit, "", "admissions");
    flood.stop();
    let rest = " packets were dropped just now, because the budget for new buckets is spent (1/s per CPU)\nMore sources need a bucket than the budget allows. Their packets are dropped, even within their limit.\nfix: ratelimit set --admissions 4/s";
    assert!(found.starts_with("warning admissions: ") && found.ends_with(rest), "{found}");
    let refused = &ratelimit.json("status")["admission"]["refused"];
    let found = about(&ratelimit, "", "admissions");
    let expected = format!(
        "note admissions: {refused} packets were dropped so far, because the budget for new buckets was spent (1/s per CPU)\n"
    );
    assert!(found.starts_with(&expected), "{found}");
    ratelimit.ok("detach --all");
}

#[test]
fn bans_that_did_not_fit_are_reported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 1 --ban 1h --front off");
    Flood::of(Frame::udp([10, 8, 0, 0], 9)).sources(90_000).send(&sandbox, 270_000);
    let failed = &ratelimit.json("status")["admission"]["bans_failed"];
    let expected = format!(
        "warning bans: {failed} bans did not fit\nThe table of bans was full. These sources are limited, but not banned.\nfix: ratelimit deny list"
    );
    assert_eq!(about(&ratelimit, "", "bans"), expected);
    ratelimit.ok("detach --all");
    let all = paragraphs(&ratelimit, "eth0");
    assert!(all.iter().all(|paragraph| !paragraph.contains(" bans: ")), "{all:#?}");
}

#[test]
fn packets_that_passed_without_a_decision_are_reported() {
    if !has_two_cpus() {
        return println!("skipped: two floods at once need two CPUs");
    }
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // If one CPU holds the only entry, another CPU finds none.
    ratelimit.ok("attach eth0 --packets 10/s --front off --max-sources 1");
    let flood = |cpu, network| Flood::of(Frame::udp([10, network, 0, 0], 9)).sources(1_000).on_cpu(cpu).start(&sandbox);
    let floods = [flood(0, 7), flood(1, 8)];
    let status = || ratelimit.json("status");
    let full = |status: &Value| status["reasons"]["table-full"]["packets"].as_u64().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while full(&status()) < 2 {
        assert!(Instant::now() < deadline, "{}", status());
    }
    drop(floods);
    let status = status();
    let reasons = status["reasons"].as_object().unwrap().values();
    let all: u64 = reasons.map(|count| count["packets"].as_u64().unwrap()).sum();
    let full = full(&status);
    let what = format!("fail-open: {full} packets passed without a decision so far: {full} table-full");
    let expected = if full > all / 1_000 {
        let why = "If the program cannot decide, packets pass. So many of them weaken the limits.";
        format!("warning {what}\n{why}\nfix: ratelimit status -v")
    } else {
        format!("note {what}\nIf the program cannot decide, packets pass. These are few.")
    };
    assert_eq!(about(&ratelimit, "", "fail-open"), expected);
    ratelimit.ok("detach --all");
}

#[test]
fn shadow_is_reported_until_limits_are_enforced() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --shadow");
    let expected = "warning shadow: limits and denies are not enforced\nShadow mode is on: every packet passes, and drops are only counted.\nfix: ratelimit set --shadow off";
    assert_eq!(about(&ratelimit, "", "shadow"), expected);
    // The suggested command solves the problem.
    ratelimit.ok("attach eth0 --shadow=off");
    let all = paragraphs(&ratelimit, "");
    assert!(all.iter().all(|paragraph| !paragraph.contains(" shadow: ")), "{all:#?}");
    ratelimit.ok("detach --all");
}

/// With few cells, most sources share one. Then a source needs a bucket for what others send, or is refused.
#[test]
fn too_few_cells_for_the_sources_are_named() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let flood = Flood::of(Frame::udp([10, 8, 0, 0], 9)).sources(3_000);
    ratelimit.ok("attach eth0 --cells 16 --packets 100/s");
    flood.send(&sandbox, 30_000);
    let found = about(&ratelimit, "", "cells");
    let sources = ratelimit.json("sources").as_array().unwrap().len();
    assert!(found.starts_with(&format!("warning cells: 16 for {sources} sources with a bucket\n")), "{found}");
    assert!(sources > 2_000 && found.ends_with("\nfix: ratelimit set --cells 4096"), "{found}");
    ratelimit.ok("set --cells 4096");
    let found = about(&ratelimit, "", "cells");
    assert!(!found.starts_with("warning "), "{found}");
    ratelimit.ok("detach --all");

    // With few buckets, what sources lose is said to be for want of buckets. Cells are what is short.
    ratelimit.ok("attach eth0 --cells 16 --packets 100/s --max-sources 100");
    flood.send(&sandbox, 30_000);
    assert!(ratelimit.json("status")["admission"]["refused"].as_u64().unwrap() > 0);
    for check in ["cells", "admissions"] {
        let found = about(&ratelimit, "", check);
        assert!(found.contains("\nfix: ratelimit set --cells "), "{found}");
    }
    ratelimit.ok("detach --all");
}
