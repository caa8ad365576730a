//! A configuration file that is reloaded repeatedly under a flood.

use std::{net::Ipv4Addr, time::Instant};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox};

use super::receiver::{PORT, alone, receiving};

/// The sources send in turn. The first one's limit returns no token during the test.
const SPENT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 66);
const DENIED: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 67);
const LIMITED: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 68);

const RELOADS: usize = 8;

/// Rules that stay in the file.
const RULES: &str = "
[settings]
sample = false
[[rule]]
source = \"10.9.0.66\"
packets = \"1/h\"
burst = 10
[[rule]]
source = \"10.9.0.67\"
policy = \"deny\"
[[rule]]
source = \"10.9.0.68\"
packets = \"500/s\"
burst = 100
";

/// Rules that come and go, besides a hundred others: a wider rule, and one that needs another program. A cost also
/// changes the cell's share of the limits that stay.
const MORE: &str = "
[default]
packets = \"7/s\"
[service.\"tcp/443\"]
packets = \"5/s\"
cost = 20
[[rule]]
source = \"10.9.0.0/24\"
policy = \"allow\"
";

#[test]
fn a_reload_lets_no_packet_through_and_renews_no_burst() {
    for front in [true, false] {
        reload(front);
    }
}

fn reload(front: bool) {
    let _alone = alone();
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add eth1 type veth peer name far1");
    let rules = RULES.replace("sample = false", &format!("sample = false\nfront = {front}"));
    let fewer = format!("interfaces = [\"eth0\"]\n{rules}");
    let others =
        (0..100).map(|number| format!("[[rule]]\nsource = \"10.8.{number}.0/24\"\npackets = \"{}/s\"\n", number + 1));
    let more = format!("interfaces = [\"eth0\", \"eth1\"]\n{rules}{MORE}{}", others.collect::<String>());
    folder.write(&fewer);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let (seconds, received) = receiving(&sandbox, |_| {
        let begin = Instant::now();
        let flood = Flood::of(Frame::udp(SPENT, PORT)).addresses(3).start(&sandbox);
        for number in 0..RELOADS {
            let (text, [begin, more, end]) = if number % 2 == 0 {
                (&more, ["103 set, 0 deleted, 3 unchanged; added ", " and 98 more; ", "; attached to eth1"])
            } else {
                (
                    &fewer,
                    [
                        "0 set, 103 deleted, 3 unchanged; deleted ",
                        " and 97 more",
                        "; allow removed from 10.9.0.0/24; detached from eth1",
                    ],
                )
            };
            folder.write(text);
            let line = daemon.line();
            assert!(line.contains(begin) && line.contains(more) && line.ends_with(end), "{line}");
        }
        assert!(flood.stop() > 100_000);
        begin.elapsed().as_secs_f64()
    });
    assert_eq!(received.from(DENIED).count, 0);
    assert_eq!(received.from(SPENT).count, 10);
    let limited = received.from(LIMITED).count;
    assert!(limited as f64 <= 100.0 + 500.0 * seconds + 1.0, "{limited} in {seconds} s");
    assert!(limited > 100, "{limited}");
    let reasons = &ratelimit.json("status")["reasons"];
    assert_eq!(reasons["within-limit"]["packets"], 10 + limited);
    assert_eq!(reasons["allowed"]["packets"], 0);
    assert!(reasons["denied"]["packets"].as_u64() > Some(10_000), "{reasons}");
    daemon.end();
    ratelimit.ok("detach --all");
}
