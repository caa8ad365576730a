//! Commands with several addresses: all or none.

use ratelimit_tests::{Ratelimit, Sandbox};
use serde_json::json;

#[test]
fn several_addresses_get_the_rule_and_lose_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set 10.0.0.2 --packets 7/s");
    let text = ratelimit.ok("deny add 10.0.0.1 10.0.0.2 2001:db8::/32 --for 1h");
    assert_eq!(
        text,
        "10.0.0.1: deny, expires in 1h\n\
         10.0.0.2: deny, expires in 1h, then 7/s again\n\
         2001:db8::/32: deny, expires in 1h\n"
    );
    let rows = ratelimit.json("allow add 10.1.0.1 10.1.0.2");
    assert_eq!(
        [&rows[0]["source"], &rows[1]["source"], &rows[2]],
        [&json!("10.1.0.1"), &json!("10.1.0.2"), &json!(null)]
    );
    // One address has the form that it always had.
    assert_eq!(ratelimit.json("allow add 10.1.0.3")["source"], "10.1.0.3");
    let text = ratelimit.ok("limit set default 10.2.0.1 --packets 5/s --ban 1m --service udp/53");
    assert_eq!(
        text,
        "default udp/53: 5/s per source, burst 5, ban 1m\n10.2.0.1 udp/53: 5/s per source, burst 5, ban 1m\n"
    );
    // Each limit keeps its own rest.
    ratelimit.ok("limit set 10.2.0.1 --packets 5/s --service udp/53 --ban off");
    let rows = ratelimit.json("limit set default 10.2.0.1 --packets 6/s --service udp/53");
    assert_eq!([&rows[0]["policy"]["ban"]["seconds"], &rows[1]["policy"]["ban"]], [&json!(60), &json!(null)]);
    assert_eq!(
        ratelimit.ok("deny del 10.0.0.1 10.0.0.2"),
        "10.0.0.1: no longer has the rule deny\n10.0.0.2: no longer has the rule deny, 7/s again\n"
    );
    assert_eq!(ratelimit.json("limit del 10.0.0.2"), json!({"deleted": "10.0.0.2"}));
    assert_eq!(
        ratelimit.json("allow del 10.1.0.1 10.1.0.2"),
        json!([{"deleted": "10.1.0.1"}, {"deleted": "10.1.0.2"}])
    );
    ratelimit.ok("detach --all");
}

#[test]
fn one_address_that_cannot_be_changed_stops_all() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("allow add 10.0.0.2");
    ratelimit.ok("deny add 10.0.0.5");
    let rules = || ["allow list", "deny list", "limit list"].map(|list| ratelimit.json(list));
    let before = rules();
    for (words, expected) in [
        ("deny add 10.0.0.1 10.0.0.2", "10.0.0.2 has the rule allow, which this would replace: nothing was changed"),
        ("deny add 10.0.0.1 10.0.0.1", "10.0.0.1 is given twice"),
        ("deny add 10.0.0.1 -", "- reads prefixes from standard input: give it alone"),
        ("allow add 10.0.0.1 10.0.0.300", "10.0.0.300"),
        ("limit set 10.0.0.1 10.0.0.2 --packets 5/s", "10.0.0.2 has the rule allow"),
        ("limit set default 10.0.0.1 --packets 5/s --for 1h", "the default limit cannot expire"),
        ("deny add 10.0.0.1 10.0.0.3 --skip-bad", "--skip-bad applies to prefixes on standard input"),
    ] {
        let line = ratelimit.fails(words);
        assert!(line.contains(expected), "{words}: {line}");
    }
    let output = ratelimit.run("deny del 10.0.0.5 10.0.0.6 10.0.0.2");
    assert_eq!(
        (output.status, output.stdout.as_str()),
        (1, "10.0.0.6 has no rule deny\n10.0.0.2 has no rule deny: it has allow\nnothing was deleted\n")
    );
    let output = ratelimit.run("allow del 10.0.0.6 10.0.0.7 --json");
    assert_eq!(
        (output.status, serde_json::from_str::<serde_json::Value>(&output.stdout).unwrap()),
        (
            1,
            json!([
                {"deleted": null, "message": "10.0.0.6 has no rule allow"},
                {"deleted": null, "message": "10.0.0.7 has no rule allow"},
            ])
        )
    );
    assert_eq!(rules(), before);
    ratelimit.ok("detach --all");
}
