//! Bans of several tools, which are rules *deny* with a comment and an end.

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox};
use serde_json::{Value, json};

/// Runs a command with a comment that has blanks. Returns its status and its output.
fn run(ratelimit: &Ratelimit<'_>, words: &str, comment: &str) -> (i32, String) {
    let mut command = ratelimit.command(words);
    let output = ratelimit.output(command.args(["--comment", comment]));
    assert!(output.status < 2, "{words}: {output:?}");
    (output.status, output.stdout)
}

/// Bans an address as the action of fail2ban does.
fn ban(ratelimit: &Ratelimit<'_>, source: &str, seconds: u32, jail: &str) -> String {
    run(ratelimit, &format!("deny add {source} --for {seconds} --keep-longer"), jail).1
}

/// Ends the ban of a jail as the action of fail2ban does.
fn unban(ratelimit: &Ratelimit<'_>, source: &str, jail: &str) -> String {
    let (status, text) = run(ratelimit, &format!("deny del {source} --if-exists"), jail);
    assert_eq!(status, 0, "{text}");
    text
}

/// Returns the owners of the only rule: their comments and the seconds that are left, rounded up to tens.
fn owners(ratelimit: &Ratelimit<'_>) -> Vec<(Option<String>, Option<u64>)> {
    let list = ratelimit.json("deny list");
    let [rule] = &list.as_array().unwrap()[..] else { return Vec::new() };
    let owner = |owner: &Value| {
        let left = owner["expires_in_seconds"].as_u64().map(|left| left.div_ceil(10) * 10);
        (owner["comment"].as_str().map(str::to_owned), left)
    };
    let further = rule["owners"].as_array().into_iter().flatten();
    [rule].into_iter().chain(further).map(owner).collect()
}

fn named(name: &str, left: impl Into<Option<u64>>) -> (Option<String>, Option<u64>) {
    (Some(name.to_owned()), left.into())
}

#[test]
fn a_rule_ends_when_the_last_of_its_owners_does() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let dropped = || ratelimit.json("status")["reasons"]["denied"]["packets"].as_u64().unwrap_or_default();
    let is_denied = || {
        let before = dropped();
        Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 1);
        dropped() > before
    };
    // The jail with the longer ban ends it first, and then the other way round.
    for first in ["long", "short"] {
        for (jail, seconds) in [("long", 3_600), ("short", 600)] {
            ban(&ratelimit, "10.9.0.7", seconds, jail);
        }
        assert_eq!(owners(&ratelimit), [named("long", 3_600), named("short", 600)]);
        let text = ratelimit.ok("deny list");
        assert!(text.contains(" long; short (in 9m5"), "{text}");
        let text = unban(&ratelimit, "10.9.0.7", first);
        assert!(text.contains("no longer has the rule deny with the comment") && text.contains("stays for"), "{text}");
        let stays = if first == "long" { named("short", 600) } else { named("long", 3_600) };
        assert_eq!(owners(&ratelimit), std::slice::from_ref(&stays));
        assert!(is_denied());
        unban(&ratelimit, "10.9.0.7", stays.0.as_deref().unwrap());
        assert!(owners(&ratelimit).is_empty() && !is_denied());
    }
    // A ban that ends by itself leaves that of another jail.
    ban(&ratelimit, "10.9.0.7", 1, "short");
    ban(&ratelimit, "10.9.0.7", 600, "long");
    while owners(&ratelimit).len() > 1 {}
    assert!(is_denied());
    unban(&ratelimit, "10.9.0.7", "long");
    assert!(owners(&ratelimit).is_empty());
    // One jail ends all its bans, and a ban without an end outlasts those with one.
    ban(&ratelimit, "10.9.0.7", 600, "short");
    run(&ratelimit, "deny add 10.9.0.7 --keep-longer", "ever");
    assert_eq!(owners(&ratelimit), [named("ever", None), named("short", 600)]);
    run(&ratelimit, "deny del --all", "ever");
    assert_eq!(owners(&ratelimit), [named("short", 600)]);
    // Without a comment, all of them end.
    ban(&ratelimit, "10.9.0.7", 900, "long");
    assert_eq!(ratelimit.ok("deny del 10.9.0.7"), "10.9.0.7: no longer has the rule deny\n");
    assert!(owners(&ratelimit).is_empty() && !is_denied());
    // The same owner does not shorten its rule without an end, also beside another one.
    run(&ratelimit, "deny add 10.9.0.7", "feed");
    run(&ratelimit, "deny add 10.9.0.7 --for 1h", "feed");
    assert_eq!(owners(&ratelimit), [named("feed", None)]);
    run(&ratelimit, "deny add 10.9.0.7", "other");
    run(&ratelimit, "deny add 10.9.0.7 --for 1h", "other");
    assert_eq!(owners(&ratelimit), [named("feed", None), named("other", None)]);
    ratelimit.ok("deny del 10.9.0.7");
    // A rule with another meaning takes the place of all.
    ban(&ratelimit, "10.9.0.7", 600, "short");
    ban(&ratelimit, "10.9.0.7", 900, "long");
    ratelimit.ok("allow add 10.9.0.7 --force");
    ratelimit.ok("allow del 10.9.0.7");
    ban(&ratelimit, "10.9.0.7", 600, "other");
    assert_eq!(owners(&ratelimit), [named("other", 600)]);
    ratelimit.ok("detach --all");
}

/// A limit with an end covers a deny without one.
#[test]
fn a_deny_below_a_limit_keeps_its_owners_and_no_others() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let cover = |owners: &[(&str, &str)]| {
        for (name, life) in owners {
            run(&ratelimit, &format!("deny add 10.9.0.7{life}"), name);
        }
        ratelimit.ok("limit set 10.9.0.7 --packets 9/s --for 1h");
    };
    let both = [("c", ""), ("d", "")];
    // Whoever was an owner before does not make a later ban endless.
    cover(&both);
    ratelimit.ok("deny del 10.9.0.7");
    ratelimit.ok("limit del 10.9.0.7");
    ban(&ratelimit, "10.9.0.7", 600, "jail");
    assert_eq!(owners(&ratelimit), [named("jail", 600)]);
    unban(&ratelimit, "10.9.0.7", "jail");
    assert!(owners(&ratelimit).is_empty());
    // One owner ends, the first or a further one, and the other stays.
    for (gone, stays) in [("c", "d"), ("d", "c")] {
        for (words, sources) in
            [("deny del 10.9.0.7", None), ("deny del --all", None), ("deny del -", Some("10.9.0.7\n"))]
        {
            cover(&both);
            match sources {
                None => drop(run(&ratelimit, words, gone)),
                Some(sources) => drop(ratelimit.ok_with(&format!("{words} --comment {gone}"), sources)),
            }
            assert!(ratelimit.ok("limit list").contains("then deny"), "{words}");
            ratelimit.ok("limit del 10.9.0.7");
            assert_eq!(owners(&ratelimit), [named(stays, None)], "{words} {gone}");
            run(&ratelimit, "deny del 10.9.0.7", stays);
            assert!(owners(&ratelimit).is_empty(), "{words} {gone}");
        }
    }
    // What has an end cannot wait below, so a limit replaces it, and the last one without an end takes it along.
    cover(&[("c", ""), ("d", " --for 2h")]);
    let (_, text) = run(&ratelimit, "deny del 10.9.0.7", "c");
    assert!(text.contains("deny does not return after"), "{text}");
    ratelimit.ok("limit del 10.9.0.7");
    ban(&ratelimit, "10.9.0.7", 600, "jail");
    assert_eq!(owners(&ratelimit), [named("jail", 600)]);
    ratelimit.ok("deny del 10.9.0.7");
    // A deny that takes the place of the limit leaves those below.
    for (life, left) in [("", None), (" --for 600", Some(600))] {
        cover(&both);
        run(&ratelimit, &format!("deny add 10.9.0.7{life}"), "e");
        assert_eq!(owners(&ratelimit), [named("c", None), named("d", None), named("e", left)]);
        ratelimit.ok("deny del 10.9.0.7");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn the_end_of_a_ban_does_not_free_what_an_operator_or_a_file_denies() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    ratelimit.ok("attach eth0");
    // An operator gives no comment, for a time or for ever, before the ban or after it.
    for life in [" --for 1d", ""] {
        for is_first in [true, false] {
            let deny = || ratelimit.ok(&format!("deny add 10.9.0.7{life}"));
            if is_first {
                deny();
            }
            ban(&ratelimit, "10.9.0.7", 600, "jail");
            if !is_first {
                deny();
            }
            assert_eq!(owners(&ratelimit).len(), 2, "{life} {is_first}");
            unban(&ratelimit, "10.9.0.7", "jail");
            let left = if life.is_empty() { None } else { Some(86_400) };
            assert_eq!(owners(&ratelimit), [(None, left)], "{life} {is_first}");
            ratelimit.ok("deny del 10.9.0.7");
        }
    }
    // A file that no longer denies an address leaves the ban, and the ban leaves what the file denies.
    let file = |sources: &str| format!("interfaces = [\"eth0\"]\n[[rule]]\nsources = [{sources}]\npolicy = \"deny\"\n");
    folder.write(&file("\"10.9.0.7\""));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    ban(&ratelimit, "10.9.0.7", 600, "jail");
    ban(&ratelimit, "10.9.0.7", 900, "jail");
    assert_eq!(owners(&ratelimit), [(None, None), named("jail", 900)]);
    folder.write(&file("\"10.9.0.8\""));
    daemon.line();
    let left = ratelimit.json("deny list");
    assert_eq!([&left[0]["comment"], &left[1]["source"]], [&json!("jail"), &json!("10.9.0.8")]);
    ban(&ratelimit, "10.9.0.8", 600, "jail");
    run(&ratelimit, "deny del --all", "jail");
    let left = ratelimit.json("deny list");
    assert_eq!(
        [&left[0]["source"], &left[0]["origin"], &left[1]],
        [&json!("10.9.0.8"), &json!("config"), &Value::Null]
    );
    daemon.end();
    ratelimit.ok("detach --all");
}

/// Whoever can have addresses banned by many tools makes no more than so many entries.
#[test]
fn a_rule_has_a_bounded_number_of_owners_and_each_ban_acts() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for jail in 0..8u32 {
        assert!(!ban(&ratelimit, "10.9.0.7", 600 + 60 * jail, &format!("jail {jail}")).contains("forgotten"));
    }
    let text = ban(&ratelimit, "10.9.0.7", 3_600, "the ninth");
    assert!(text.contains("  a rule has at most 8 owners: the one that would end first is forgotten\n"), "{text}");
    let all = owners(&ratelimit);
    assert_eq!((all.len(), &all[0], &all[7]), (8, &named("the ninth", 3_600), &named("jail 1", 660)));
    for jail in (1..8).map(|jail| format!("jail {jail}")).chain(["the ninth".to_owned()]) {
        assert!(!owners(&ratelimit).is_empty(), "{jail}");
        unban(&ratelimit, "10.9.0.7", &jail);
    }
    assert!(owners(&ratelimit).is_empty());
    ratelimit.ok("detach --all");
}

#[test]
fn a_network_that_bans_fill_is_banned_as_a_whole() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let sources = || {
        let rules = ratelimit.json("deny list");
        rules.as_array().unwrap().iter().map(|rule| rule["source"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for host in 1..16 {
        let text = ban(&ratelimit, &format!("2001:db8:7::{host:x}"), 600 + host, "sshd");
        assert!(!text.contains("whole"), "{text}");
    }
    assert_eq!(sources().len(), 15);
    let text = ban(&ratelimit, "2001:db8:7::99", 300, "web");
    assert!(
        text.ends_with("  2001:db8:7::/64 is banned as a whole, because 16 of its addresses are banned\n"),
        "{text}"
    );
    assert_eq!(sources(), ["2001:db8:7::/64"]);
    assert_eq!(ratelimit.json("deny list")[0]["origin"], "filled");
    assert_eq!(owners(&ratelimit), [named("sshd", 620), named("web", 300)]);
    // It acts on every address, and an event tells of it.
    Flood::of(Frame::udp("2001:db8:7::1234".parse::<std::net::IpAddr>().unwrap(), 9)).send(&sandbox, 2);
    assert_eq!(ratelimit.json("status")["reasons"]["denied"]["packets"], 2);
    assert!(ratelimit.ok("events --past").contains("2001:db8:7::/64 is banned as a whole"));
    // Further bans inside it only make it last longer, and are told so.
    let json: Value = {
        let mut command = ratelimit.command("-j deny add 2001:db8:7:0:1::5 --for 900 --keep-longer --comment sshd");
        serde_json::from_str(&ratelimit.output(&mut command).stdout).unwrap()
    };
    assert_eq!([&json["source"], &json["whole"]], [&json!("2001:db8:7:0:1::5"), &json!("2001:db8:7::/64")]);
    ban(&ratelimit, "2001:db8:7::6", 60, "sshd");
    assert_eq!(owners(&ratelimit), [named("sshd", 900), named("web", 300)]);
    // The end of one of its bans leaves it.
    let text = unban(&ratelimit, "2001:db8:7::5", "sshd");
    assert!(text.contains("bans have filled 2001:db8:7::/64, which is banned as a whole for 14m"), "{text}");
    // A jail that stops leaves the bans of others.
    run(&ratelimit, "deny del --all", "sshd");
    assert_eq!(owners(&ratelimit), [named("web", 300)]);
    run(&ratelimit, "deny del --all", "web");
    assert!(sources().is_empty());
    // Two million bans of one /64 need one rule. IPv4 is never widened, and neither is what has no end.
    let many: String =
        (0..70_000u32).map(|host| format!("2001:db8:8::{:x}:{:x}\n", host >> 16, host & 0xffff)).collect();
    let text = ratelimit.ok_with("deny add - --for 1h --comment feed", &many);
    assert!(text.contains("2001:db8:8::/64 is banned as a whole, because 70000 of its addresses"), "{text}");
    assert_eq!(sources(), ["2001:db8:8::/64"]);
    ratelimit.ok("deny del --all --comment feed");
    let v4: String = (0..40).map(|host| format!("192.0.2.{host}\n")).collect();
    ratelimit.ok_with("deny add - --for 1h", &v4);
    let lasting: String = (0..40).map(|host| format!("2001:db8:9::{host}\n")).collect();
    ratelimit.ok_with("deny add -", &lasting);
    assert_eq!(sources().len(), 80);
    ratelimit.ok("detach --all");
}

/// A rule for an address, or for a part of the network, decides before the one of the whole network.
#[test]
fn a_ban_below_a_narrower_rule_stays_inside_a_whole() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let is_denied = |source: &str| {
        let dropped = || ratelimit.json("status")["reasons"]["denied"]["packets"].as_u64().unwrap_or_default();
        let before = dropped();
        Flood::of(Frame::udp(source.parse::<std::net::IpAddr>().unwrap(), 9)).send(&sandbox, 1);
        dropped() > before
    };
    let sources = || {
        let rules = ratelimit.json("deny list");
        rules.as_array().unwrap().iter().map(|rule| rule["source"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // One that comes early, the last one, and one in a part with a limit of its own.
    ratelimit.ok("limit set 2001:db8:7::5 2001:db8:7::10 2001:db8:7:0:1::/80 --packets 5/s");
    ban(&ratelimit, "2001:db8:7:0:1::7", 600, "sshd");
    for host in 1..15 {
        ban(&ratelimit, &format!("2001:db8:7::{host:x}"), 600, "sshd");
    }
    assert!(ban(&ratelimit, "2001:db8:7::10", 600, "sshd").contains("2001:db8:7::/64 is banned as a whole"));
    let kept = ["2001:db8:7::/64", "2001:db8:7::5", "2001:db8:7::10", "2001:db8:7:0:1::7"];
    assert_eq!(sources(), kept);
    // A later one acts inside the whole, too.
    ratelimit.ok("limit set 2001:db8:7::9 --packets 5/s");
    assert!(!is_denied("2001:db8:7::9"));
    assert!(!ban(&ratelimit, "2001:db8:7::9", 600, "sshd").contains("whole"));
    for host in ["::5", "::9", "::10", "::99", ":0:1::7"] {
        assert!(is_denied(&format!("2001:db8:7{host}")), "{host}");
    }
    run(&ratelimit, "deny del --all", "sshd");
    assert!(sources().is_empty() && !is_denied("2001:db8:7::5"));
    assert_eq!(ratelimit.json("limit list").as_array().unwrap().len(), 4);
    ratelimit.ok("detach --all");
}

#[test]
fn what_must_not_be_denied_keeps_a_prefix_from_being_banned_as_a_whole() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let fill = |net: &str| {
        let text: String = (0x10..0x30).map(|host| format!("{net}::{host:x}\n")).collect();
        ratelimit.ok_with("deny add - --for 1h --comment feed", &text);
        let count = ratelimit.json("deny list").as_array().unwrap().len();
        ratelimit.ok("deny del --all --comment feed");
        count
    };
    assert_eq!(fill("2001:db8:7"), 1);
    // An address inside is allowed, or one of a service.
    ratelimit.ok("allow add 2001:db8:7::1");
    assert_eq!(fill("2001:db8:7"), 32);
    ratelimit.ok("allow del 2001:db8:7::1");
    ratelimit.ok("allow add 2001:db8:7::2 --service udp/53");
    assert_eq!(fill("2001:db8:7"), 32);
    ratelimit.ok("allow del 2001:db8:7::2 --service udp/53");
    assert_eq!(fill("2001:db8:7"), 1);
    // The network of this host.
    sandbox.ip("address add 2001:db8:7::1/64 dev eth0 nodad");
    assert_eq!(fill("2001:db8:7"), 32);
    assert_eq!(fill("2001:db8:8"), 1);
    ratelimit.ok("detach --all");
}
