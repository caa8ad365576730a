//! `save`.

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};
use serde_json::json;

#[test]
fn a_saved_file_is_valid_and_restores_the_same_rules() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 10/m,500/h --algorithm sliding-window --over-limit reject --capacity 5k/s --unknown auto --malformed pass");
    ratelimit.ok("limit set 10.0.0.0/8 --packets 1.5k/s --bytes 12.5MB/s --burst 77 --throttle soft=10% --ban 90s --ban-after 3 --ban-cap 125m");
    ratelimit
        .ok("limit set 10.1.0.0/16 --packets 1000/s --parent /24=20k/s --parent all=500k/s,1GB/s --throttle elastic");
    ratelimit.ok("limit set default --service udp/53 --packets 0.5/s --algorithm leaky-bucket");
    ratelimit.ok("limit set 2001:db8::/32 --service tcp-syn --packets 3/d --algorithm sliding-log --over-limit shadow");
    ratelimit.ok("limit set 2001:db8::/48 --parent interface=1MB/s");
    ratelimit.ok("deny add 192.0.2.1 --for 7d");
    ratelimit.ok("allow add 192.0.2.0/24 --service icmp");
    ratelimit.ok("cost set tcp-syn 10");
    ratelimit.ok("cost set udp/53 2");
    let saved = ratelimit.ok("save");
    let document = ratelimit.json("save");
    assert_eq!(document["interfaces"], json!(["eth0"]));
    assert_eq!(document["settings"]["unknown"], "auto");
    assert_eq!(document["service"]["udp/53"]["cost"], 2);
    // A time is text that starts with the date of the file.
    let rules = document["rule"].as_array().unwrap();
    let denied = rules.iter().find(|rule| rule["source"] == "192.0.2.1").unwrap();
    let until = denied["until"].as_str().unwrap();
    assert!(denied["policy"] == "deny" && saved.contains(&format!("until = {}", &until[..10])), "{denied} {saved}");
    let list = |ratelimit: &Ratelimit<'_>| {
        ["limit list", "allow list", "deny list", "cost list"].map(|list| {
            let mut list = ratelimit.json(list);
            for row in list.as_array_mut().unwrap() {
                row.as_object_mut().unwrap().remove("origin");
                row.as_object_mut().unwrap().remove("expires_in_seconds");
            }
            list
        })
    };
    let before = list(&ratelimit);
    ratelimit.ok("detach --all");
    ratelimit.ok("attach eth0 --packets 10/s");
    let empty: Vec<_> = ratelimit.ok("save").lines().filter(|line| line.starts_with('[')).map(str::to_owned).collect();
    assert_eq!(empty, ["[settings]", "[default]"], "there are empty tables");
    ratelimit.ok("detach --all");

    let folder = Folder::new();
    folder.write(&saved);
    ratelimit.ok(&format!("check {}", folder.file().display()));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    assert!(line.ends_with("in force, rules: 8 set, 0 deleted, 0 unchanged; attached to eth0"), "{line}");
    assert_eq!(list(&ratelimit), before);
    assert_eq!(ratelimit.ok("save"), saved);
    assert!(ratelimit.ok("reload").ends_with("rules: 0 set, 0 deleted, 8 unchanged\n"));
    daemon.line();
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_saved_file_has_the_new_names_of_settings_given_by_old_ones() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0 --strangers 9k/s --max-logs 50");
    assert!(text.contains("\nunknown sources: 9000/s in total\n") && !text.contains("strangers"), "{text}");
    let saved = ratelimit.ok("save");
    assert!(saved.contains("\nunknown = \"9000/s\"\n") && saved.contains("\nmax-sliding-logs = 50\n"), "{saved}");
    assert!(!saved.contains("strangers") && !saved.contains("max-logs"), "{saved}");
    ratelimit.ok("detach --all");

    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n[settings]\nstrangers = \"9k/s\"\nmax-logs = 50\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    assert!(!line.contains("strangers") && !line.contains("max-logs"), "{line}");
    let settings = &ratelimit.json("save")["settings"];
    assert_eq!((&settings["unknown"], &settings["max-sliding-logs"]), (&json!("9000/s"), &json!(50)));
    daemon.end();
    ratelimit.ok("detach --all");
}
