//! Named lists of the configuration file.

use std::{fs, path::Path};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};
use serde_json::json;

use super::{dropped, feed_of};

/// Returns a file with one list.
fn with_list(feed: &Path, rest: &str) -> String {
    format!("interfaces = [\"eth0\"]\n[[list]]\nname = \"drop\"\nfile = \"{}\"\n{rest}", feed.display())
}

/// Returns the next line of the daemon with this text. A reload that changes nothing may come first.
fn line_with(daemon: &mut Daemon, text: &str) -> String {
    let first = daemon.line();
    if first.contains(text) {
        return first;
    }
    let second = daemon.line();
    assert!(second.contains(text), "{first}\n{second}");
    second
}

/// Replaces a file by rename.
fn replace(feed: &Path, text: &str) {
    let fresh = feed.with_extension("fresh");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, feed).unwrap();
}

#[test]
fn the_daemon_sets_and_follows_the_lists_of_its_file() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let feed = folder.file().with_file_name("feed.txt");
    fs::write(&feed, "10.1.0.0/16\nbad\n").unwrap();
    folder.write(&with_list(&feed, ""));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let expected = format!("ratelimit: list drop: lines of {} that are skipped: line 2: bad: expected", feed.display());
    assert!(daemon.line().starts_with(&expected));
    let line = daemon.line();
    assert!(line.contains("in force") && line.contains("lists changed: drop"), "{line}");
    let row = ratelimit.json("list show drop");
    assert_eq!((&row["origin"], &row["entries"]), (&"config".into(), &1.into()));
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 1]), 10);

    // By rename and in place.
    replace(&feed, "10.2.0.0/16\n");
    assert!(line_with(&mut daemon, "lists changed: drop").contains("reloaded"));
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 1]), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 2, 0, 1]), 10);
    fs::write(&feed, "10.3.0.0/16\n192.0.2.1\n").unwrap();
    line_with(&mut daemon, "lists changed: drop");
    assert_eq!(ratelimit.json("list show drop")["entries"], 2);

    // A feed without an address keeps the list.
    replace(&feed, "# the server is down\n");
    let line = line_with(&mut daemon, "has no address");
    assert!(line.contains("so the previous list stays in force"), "{line}");
    assert_eq!(ratelimit.json("list show drop")["entries"], 2);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 3, 0, 1]), 10);
    assert!(ratelimit.ok("metrics").contains("ratelimit_config_list_usable{list=\"drop\"} 0\n"));
    replace(&feed, "10.4.0.0/16\n");
    line_with(&mut daemon, "lists changed: drop");
    let metrics = ratelimit.ok("metrics");
    for sample in [
        "ratelimit_config_list_usable{list=\"drop\"} 1\n",
        "ratelimit_list_entries{list=\"drop\",action=\"deny\"} 1\n",
        "ratelimit_list_dropped_packets_total{list=\"drop\"} 30\n",
    ] {
        assert!(metrics.contains(sample), "{sample}{metrics}");
    }

    // The file decides about its list, and a list of a command stays.
    ratelimit.ok_with("list set mine -", "10.5.0.0/16\n");
    let deleted = ratelimit.ok("list del drop");
    let hint = "a daemon runs: its file decides again at the next reload, so change the file, too";
    assert_eq!(deleted.lines().nth(1), Some(hint));
    let differs = &ratelimit.json("status")["config"]["differences"];
    assert_eq!(
        *differs,
        json!([{"name": "the list drop", "running": "deleted by command", "file": "that of the file"}])
    );
    assert!(ratelimit.ok("reload").contains("lists changed: drop"));
    line_with(&mut daemon, "lists changed: drop");
    folder.write(&with_list(&feed, "action = \"slow\"\n[policy.slow]\npackets = \"1/h\"\nburst = 4\n"));
    line_with(&mut daemon, "lists changed: drop");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 4, 0, 1]), 6);
    assert_eq!(ratelimit.json("list show drop")["policy"]["name"], "slow");
    let listed = ratelimit.ok("list list");
    assert!(listed.contains("slow: 1/h"), "{listed}");
    folder.write("interfaces = [\"eth0\"]\n");
    line_with(&mut daemon, "lists changed: drop");
    assert_eq!(ratelimit.json("list list").as_array().unwrap().len(), 1);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 4, 0, 2]), 0);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_file_that_becomes_a_page_or_loses_most_entries_leaves_its_list_as_it_was() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let feed = folder.file().with_file_name("feed.txt");
    fs::write(&feed, feed_of(40)).unwrap();
    folder.write(&with_list(&feed, ""));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    for (text, expected) in [
        ("<html>\n192.0.2.9\n".to_owned(), "is a web page, not a list"),
        ("192.0.2.9\nerror\nquota\n".to_owned(), "is no list: 2 of 3 lines cannot be used, such as line 2: error: "),
        (feed_of(19), "falls from 40 to 19 entries: if this is right, add may-shrink = true"),
    ] {
        replace(&feed, &text);
        let line = line_with(&mut daemon, expected);
        assert!(line.contains("so the previous list stays in force"), "{line}");
        assert_eq!(ratelimit.json("list show drop")["entries"], 40);
        assert!(ratelimit.ok("status").contains(expected));
        assert!(ratelimit.run("doctor").stdout.contains(expected));
        assert!(ratelimit.ok("metrics").contains("ratelimit_config_list_usable{list=\"drop\"} 0\n"));
    }
    // Another reload does not believe it either.
    assert_eq!(ratelimit.run("reload").status, 0);
    assert_eq!(ratelimit.json("list show drop")["entries"], 40);
    folder.write(&with_list(&feed, "may-shrink = true\n"));
    line_with(&mut daemon, "lists changed: drop");
    assert_eq!(ratelimit.json("list show drop")["entries"], 19);
    assert_eq!(ratelimit.json("status")["config"]["degraded"], false);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_whose_file_is_missing_stops_nothing_else_and_is_set_when_the_file_appears() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let feed = folder.file().with_file_name("feeds").join("feed.txt");
    folder.write(&with_list(&feed, "[[rule]]\nsource = \"10.6.0.0/16\"\npolicy = \"deny\"\n"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    let expected =
        format!("list drop: {} cannot be read: No such file or directory (os error 2), so the list is", feed.display());
    assert!(line.contains("in force, rules: 1 set") && line.contains(&expected), "{line}");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 6, 0, 1]), 10);
    assert!(ratelimit.ok("status").contains(&format!("degraded: {expected} not in force\n")));
    assert_eq!(ratelimit.json("status")["config"]["unusable_lists"][0]["name"], "drop");
    let check = ratelimit.run(&format!("check {}", folder.file().display()));
    assert_eq!(check.status, 1);
    // A script can tell that from a file that is in force as a whole.
    let reload = ratelimit.run("reload");
    assert!(reload.status == 1 && reload.stdout.contains(&expected) && reload.stderr.is_empty(), "{reload:?}");
    let reloaded: serde_json::Value = serde_json::from_str(&ratelimit.run("reload -j").stdout).unwrap();
    assert!(reloaded["unusable_lists"][0].as_str().unwrap().starts_with(&expected), "{reloaded}");

    fs::create_dir(feed.parent().unwrap()).unwrap();
    fs::write(&feed, "10.7.0.0/16\n").unwrap();
    line_with(&mut daemon, "lists changed: drop");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 7, 0, 1]), 10);
    assert_eq!(ratelimit.json("status")["config"]["degraded"], false);
    assert_eq!(ratelimit.json("reload")["unusable_lists"], serde_json::Value::Null);

    fs::remove_file(&feed).unwrap();
    line_with(&mut daemon, "so the previous list stays in force");
    assert_eq!(ratelimit.json("status")["config"]["degraded"], true);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 7, 0, 2]), 10);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_saved_file_names_lists_and_restores_them() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let feed = folder.file().with_file_name("feed.txt");
    fs::write(&feed, "10.1.0.0/16\n").unwrap();
    ratelimit.ok("attach eth0");
    ratelimit.ok(&format!("list set drop {}", feed.display()));
    ratelimit.ok(&format!("list set slow {} --packets 5/s", feed.display()));
    ratelimit.ok_with("list set typed -", "10.2.0.0/16\n");
    let longest = "n".repeat(32);
    ratelimit.ok(&format!("list set {longest} {} --packets 6/s", feed.display()));
    let saved = ratelimit.ok("save");
    let list = |name: &str, action: &str| {
        format!("[[list]]\nname = \"{name}\"\nfile = \"{}\"\naction = \"{action}\"\n", feed.display())
    };
    for expected in [list("drop", "deny"), list("slow", "list-slow"), list(&longest, "list-1")] {
        assert!(saved.contains(&expected), "{expected}{saved}");
    }
    assert!(saved.contains("# The list typed is left out, because it comes from no file."), "{saved}");
    let before = ["drop", "slow"].map(|name| ratelimit.json(&format!("list show {name}"))["policy"]["text"].clone());
    ratelimit.ok("detach --all");
    folder.write(&saved);
    ratelimit.ok(&format!("check {}", folder.file().display()));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let after = ["drop", "slow"].map(|name| ratelimit.json(&format!("list show {name}"))["policy"]["text"].clone());
    assert_eq!(before, after);
    // A policy of the file keeps its name.
    folder.write(&with_list(&feed, "action = \"snail\"\n[policy.snail]\npackets = \"3/m\"\n"));
    line_with(&mut daemon, "lists changed");
    let saved = ratelimit.ok("save");
    assert!(saved.contains("[policy.snail]") && saved.contains(&list("drop", "snail")), "{saved}");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_can_come_from_a_file_with_a_long_path() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let inner = folder.file().with_file_name("a".repeat(200)).join("b".repeat(200));
    fs::create_dir_all(&inner).unwrap();
    fs::write(inner.join("feed.txt"), "10.1.0.0/16\n").unwrap();
    ratelimit.ok("attach eth0");
    assert_eq!(ratelimit.ok(&format!("list set drop {}", inner.join("feed.txt").display())), "drop: deny, 1 entry\n");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 1]), 10);
    ratelimit.ok("detach --all");
}

#[test]
fn problems_of_lists_are_named_with_their_line() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let problem = |text: &str| {
        folder.write(text);
        let output = ratelimit.run(&format!("check {}", folder.file().display()));
        assert_eq!(output.status, 1, "{output:?}");
        output.stdout + &output.stderr
    };
    let missing = problem(&with_list(Path::new("/nonexistent/feed.txt"), ""));
    assert!(missing.contains("list drop: /nonexistent/feed.txt cannot be read: No such file"), "{missing}");
    let feed = folder.file().with_file_name("feed.txt");
    fs::write(&feed, "10.1.0.0/16\nnonsense\n").unwrap();
    folder.write(&with_list(&feed, ""));
    let checked = ratelimit.json(&format!("check {}", folder.file().display()));
    let skipped = checked["skipped"].as_array().unwrap();
    assert_eq!((skipped.len(), &skipped[0]["list"], &skipped[0]["line"]), (1, &json!("drop"), &json!(2)), "{checked}");
    let relative = problem(&with_list(Path::new("feed.txt"), ""));
    assert!(relative.contains(":4:8: ") && relative.contains("expected an absolute path"), "{relative}");
    let action = problem(&with_list(Path::new("/dev/null"), "action = \"slow\"\n"));
    assert!(action.contains(":5:10: "), "{action}");
    let unnamed = problem("interfaces = [\"eth0\"]\n[[list]]\nfile = \"/dev/null\"\n");
    assert!(unnamed.contains("name is missing"), "{unnamed}");
}
