//! Ranges of ports as services: `--service tcp/8000-8099`.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::json;

#[test]
fn a_range_is_one_service_in_every_command() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --front off");
    let text = ratelimit.ok("limit set default --service udp/8000-8099 --packets 1/h --burst 3");
    assert_eq!(text, "default udp/8000-8099: 1/h per source, burst 3\n");
    ratelimit.ok("deny add 10.9.0.0/24 --service tcp/1-1023");
    ratelimit.ok("cost set sctp/5-6 3");
    for port in [8000, 8050, 8099] {
        Flood::of(Frame::udp([10, 9, 0, 66], port)).send(&sandbox, 2);
    }
    for port in [7999, 8100] {
        Flood::of(Frame::udp([10, 9, 0, 66], port)).send(&sandbox, 2);
    }
    let sources = ratelimit.json("sources --sort dropped");
    let row = &sources[0];
    assert_eq!(
        [&row["service"], &row["passed"]["packets"], &row["dropped"]["packets"]],
        [&json!("udp/8000-8099"), &json!(3), &json!(3)]
    );
    assert_eq!(sources[1]["passed"]["packets"], 4);
    assert_eq!(ratelimit.json("limit list")[0]["service"], "udp/8000-8099");
    assert_eq!(ratelimit.json("deny list")[0]["service"], "tcp/1-1023");
    let saved = ratelimit.ok("save");
    for part in ["[service.\"udp/8000-8099\"]", "[service.\"sctp/5-6\"]", "service = \"tcp/1-1023\""] {
        assert!(saved.contains(part), "{part} in {saved}");
    }
    for (words, service, other) in [
        ("limit set 10.0.0.1 --service udp/8099 --packets 1/s", "udp/8099", "udp/8000-8099"),
        ("allow add 10.0.0.1 --service udp/7000-8000", "udp/7000-8000", "udp/8000-8099"),
        ("cost set tcp/0-65535 2", "tcp/0-65535", "tcp/1-1023"),
        ("deny add 10.0.0.1 --service sctp/6", "sctp/6", "sctp/5-6"),
    ] {
        let expected = format!(
            "{service} overlaps {other}, which has rules or a cost, and a port belongs to one service only: delete the rules and the cost of {other} first, or choose other ports"
        );
        let line = ratelimit.fails(words);
        assert!(line.contains(&expected), "{words}: {line}");
    }
    assert_eq!(ratelimit.ok("save"), saved, "a refused service changed something");
    let negative = ratelimit.run("limit del default --service udp/8000");
    let hint = "default udp/8000 has no limit: it has 1/h --service udp/8000-8099\n";
    assert_eq!((negative.status, negative.stdout.as_str()), (1, hint));
    ratelimit.ok("limit del default --service udp/8000-8099");
    ratelimit.ok("limit set default --service udp/8099 --packets 1/h");
    assert!(ratelimit.fails("limit set default --service udp/9-8 --packets 1/h").contains("write 8-9"));
    ratelimit.ok("detach --all");
}
