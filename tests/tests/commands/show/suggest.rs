//! `suggest` proposes limits from the traffic that it observes.

use std::thread;

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, flat};
use serde_json::json;

/// Sends much from one source and little from 19 others while `words` run. Returns the JSON of the command.
fn suggested(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, words: &str) -> serde_json::Value {
    thread::scope(|scope| {
        let command = scope.spawn(|| ratelimit.json(words));
        while !command.is_finished() {
            Flood::of(Frame::udp([10, 9, 1, 0], 9)).sources(19).send(sandbox, 19);
            Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(sandbox, 2_000);
        }
        command.join().unwrap()
    })
}

#[test]
fn a_proposal_limits_the_one_source_that_sends_much_more_and_no_other() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let before = ratelimit.json("limit list");
    let suggested = suggested(&sandbox, &ratelimit, "suggest --for 2s");
    let any = &suggested["services"][0];
    assert_eq!([&any["service"], &any["sources"], &any["estimated"]], [&json!("any"), &json!(20), &json!(false)]);
    assert_eq!((&any["limited"], &any["would_limit"][0]["source"]), (&json!(1), &json!("10.9.0.66")), "{suggested}");
    let second = |which: &str| any["busiest"]["second"][which].as_u64().unwrap();
    // The flood sends 2,000 times as much.
    assert!(second("highest") > 20 * second("p50") && second("p50") > 0, "{suggested}");
    assert_eq!([&any["busiest"]["minute"], &any["busiest"]["hour"]], [&json!(null), &json!(null)]);
    assert_eq!(ratelimit.json("limit list"), before);

    // What it prints works as a command and as a file.
    let command = any["command"].as_str().unwrap();
    ratelimit.ok(command.strip_prefix("ratelimit ").unwrap());
    let limit = flat(ratelimit.json("limit list")[0].take());
    assert_eq!([&limit["packets"], &limit["over_limit"]], [&any["packets"], &json!("shadow")], "{limit}");
    let folder = ratelimit_tests::Folder::new();
    folder.write(&format!("interfaces = [\"eth0\"]\n{}", any["toml"].as_str().unwrap()));
    ratelimit.ok(&format!("check {}", folder.file().display()));
    ratelimit.ok("detach --all");
}

#[test]
fn each_service_with_a_rule_gets_a_proposal() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --front off");
    ratelimit.ok("limit set default --service udp/9 --packets 1M/s --over-limit shadow");
    let suggested = suggested(&sandbox, &ratelimit, "suggest --for 1s --percentile 100");
    let of_service = &suggested["services"][0];
    assert_eq!([&of_service["service"], &of_service["limited"]], [&json!("udp/9"), &json!(0)], "{suggested}");
    assert!(of_service["command"].as_str().unwrap().contains(" --service udp/9 "), "{suggested}");
    assert_eq!(suggested["percentile"], 100);
    ratelimit.ok("detach --all");
}

#[test]
fn the_proposal_for_a_limit_that_is_enforced_keeps_it_enforced() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1k/s --ban 1m");
    let suggested = suggested(&sandbox, &ratelimit, "suggest --for 1s");
    let any = &suggested["services"][0];
    // Cells decide.
    assert_eq!([&suggested["is_complete"], &any["estimated"]], [&json!(true), &json!(true)], "{suggested}");
    let [command, toml] = ["command", "toml"].map(|field| any[field].as_str().unwrap());
    assert!(!command.contains("shadow") && !toml.contains("shadow"), "{suggested}");
    ratelimit.ok(command.strip_prefix("ratelimit ").unwrap());
    let limit = flat(ratelimit.json("limit list")[0].take());
    assert_eq!([&limit["packets"], &limit["over_limit"]], [&any["packets"], &json!("drop")], "{limit}");
    ratelimit.ok(&format!("{} --ban off --over-limit shadow", command.strip_prefix("ratelimit ").unwrap()));
    ratelimit.ok("detach --all");
}

#[test]
fn forged_sources_of_one_packet_do_not_lower_the_proposal() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let mut forged = 0;
    let suggested = thread::scope(|scope| {
        let command = scope.spawn(|| ratelimit.json("suggest --for 2s"));
        while !command.is_finished() {
            Flood::of(Frame::udp([10, 9, 2 + forged, 0], 9)).sources(200).send(&sandbox, 200);
            // A slow machine sends this once in the two seconds, and the mean is still above 100.
            for _ in 0..3 {
                Flood::of(Frame::udp([10, 9, 1, 0], 9)).sources(10).send(&sandbox, 1_000);
            }
            forged = (forged + 1).min(250);
        }
        command.join().unwrap()
    });
    let any = &suggested["services"][0];
    assert!(any["seen_once"].as_u64().unwrap() > 100, "{suggested}");
    assert!(any["busiest"]["second"]["p50"].as_u64().unwrap() > 100, "{suggested}");
    ratelimit.ok("detach --all");
}

#[test]
fn without_traffic_there_is_no_proposal() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    assert!(ratelimit.fails("suggest --for 1s").contains("is not attached"));
    ratelimit.ok("attach eth0");
    // What came before does not count.
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 100);
    let output = ratelimit.run("suggest --for 1s");
    assert_eq!(
        (output.status, output.stdout.as_str()),
        (1, "no source sent a packet in 1s: there is nothing to suggest\n")
    );
    assert!(ratelimit.fails("suggest --percentile 0").contains("--percentile"));
    ratelimit.ok("detach --all");
}

/// A first limit counts by samples. The proposal is that of the same traffic before, or says how to get it.
#[test]
fn a_first_limit_does_not_raise_the_next_proposal() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let flood = Flood::of(Frame::udp([10, 9, 1, 0], 9)).sources(20).pace(20 * 180).start(&sandbox);
    let proposed = || {
        let any = ratelimit.json("suggest --for 25s")["services"][0].take();
        (any["packets"].as_str().unwrap().to_owned(), any["estimated"].as_bool().unwrap())
    };
    assert_eq!(proposed(), ("500/s".to_owned(), false));
    ratelimit.ok("limit set default --packets 500/s");
    let (packets, estimated) = proposed();
    assert!(["500/s", "1000/s"].contains(&packets.as_str()) && estimated, "{packets}");
    let text = ratelimit.ok("suggest --for 1s");
    let advice = "\nObserve for a minute at least. Without a limit, and in an instance with `attach --front off`, every packet is counted.\n";
    assert!(text.contains(advice), "{text}");
    flood.stop();
    ratelimit.ok("detach --all");
}
