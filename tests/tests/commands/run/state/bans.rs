//! Which bans return after a reboot.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};

use super::{file, folder, start};

const LIMIT: &str = "[default]\npackets = \"1/h\"\nburst = 3\nban = \"10m\"\n";

fn flood(sandbox: &Sandbox, frame: Frame) {
    Flood::of(frame).send(sandbox, 10);
}

/// Returns the banned sources.
fn banned(ratelimit: &Ratelimit<'_>) -> Vec<String> {
    let list = ratelimit.json("deny list");
    let sources = list.as_array().unwrap().iter().map(|rule| rule["source"].as_str().unwrap().to_owned());
    sources.collect()
}

#[test]
fn an_ipv6_source_is_banned_again_whatever_its_parts_and_its_address() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let part = "allow = [\"fd00:9:0:7::/96\"]\n";
    let single = "[settings]\nipv6-prefix = 128\n";
    for (more, sender, source) in [
        // The first addresses of the source have a rule of their own.
        (part, [0xfd00, 9, 0, 7, 1, 0, 0, 1], "fd00:9:0:7::/64"),
        // A sender can forge an IPv4-mapped address.
        (single, [0, 0, 0, 0, 0, 0xffff, 0xc000, 0x201], "::ffff:192.0.2.1"),
    ] {
        let (folder, state) = folder();
        folder.write(&file(&state, &format!("{more}{LIMIT}")));
        let (daemon, _) = start(&sandbox, &ratelimit, &folder);
        flood(&sandbox, Frame::udp(sender, 9));
        assert_eq!(banned(&ratelimit), [source]);
        daemon.end();
        ratelimit.ok("detach --all");
        let (daemon, line) = start(&sandbox, &ratelimit, &folder);
        assert!(line.ends_with("restored debts: 1, bans: 1"), "{line}");
        assert_eq!(banned(&ratelimit), [source]);
        daemon.end();
        ratelimit.ok("detach --all");
    }
}

#[test]
fn a_ban_that_the_allow_of_a_command_outranks_does_not_return_without_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, state) = folder();
    folder.write(&file(&state, LIMIT));
    let (daemon, _) = start(&sandbox, &ratelimit, &folder);
    for last in [66, 67, 68] {
        flood(&sandbox, Frame::udp([10, 9, 0, last], 9));
    }
    flood(&sandbox, Frame::udp([0xfd00, 9, 0, 7, 0, 0, 0, 1], 9));
    ratelimit.ok("allow add 10.9.0.64/30");
    ratelimit.ok("allow add fd00:9:0:7::1");
    let before = banned(&ratelimit);
    assert!(["10.9.0.66", "10.9.0.68", "fd00:9:0:7::/64"].iter().all(|source| before.contains(&(*source).to_owned())));
    daemon.end();
    ratelimit.ok("detach --all");
    let (daemon, line) = start(&sandbox, &ratelimit, &folder);
    assert!(line.ends_with(", bans: 1"), "{line}");
    assert_eq!(banned(&ratelimit), ["10.9.0.68"]);
    daemon.end();
    ratelimit.ok("detach --all");
}
