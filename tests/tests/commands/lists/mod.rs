//! Named lists by command.

mod file;
mod formats;
mod server;
mod ssh;
mod unit;

use std::fs;

use ratelimit_tests::{Flood, Folder, Frame, Ratelimit, Sandbox};
use serde_json::{Value, json};

/// Returns how many of ten packets from this address were dropped.
fn dropped(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, source: [u8; 4]) -> u64 {
    let count = || ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
    let before = count();
    Flood::of(Frame::udp(source, 9)).send(sandbox, 10);
    count() - before
}

#[test]
fn a_list_is_set_replaced_shown_and_deleted_as_a_whole() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    assert_eq!(ratelimit.ok("list list"), "no lists\n");
    assert_eq!(
        ratelimit.ok_with("list set drop -", "10.1.0.0/16\n10.2.0.1\n2001:db8::/32\n"),
        "drop: deny, 3 entries\n"
    );
    assert_eq!(["list list", "deny list"].map(|words| ratelimit.json(words).as_array().unwrap().len()), [1, 0]);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 1]), 10);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 2, 0, 1]), 10);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 2, 0, 2]), 0);
    let shown = ratelimit.ok("list show drop");
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines[..2], ["drop: deny", "  3 entries: addresses 1, prefixes 2"]);
    assert!(lines[2].starts_with("  20 packets, ") && lines[2].ends_with(" bytes dropped"), "{shown}");
    assert_eq!(lines[3..], ["  ends never", "  set by command"]);
    let expected = json!({
        "name": "drop", "action": "deny", "entries": 3, "addresses": 1, "prefixes": 2,
        "expires_in_seconds": null, "origin": "command", "file": null, "url": null, "policy": null,
    });
    let mut row = ratelimit.json("list show drop");
    assert_eq!(row["hits"]["packets"], 20);
    assert_eq!(ratelimit.json("list list"), json!([row]));
    assert_eq!(ratelimit.json("status")["lists"], json!([row]));
    row.as_object_mut().unwrap().remove("hits");
    assert_eq!(row, expected);

    // The new content takes the place of the old one. The hits stay.
    let folder = Folder::new();
    let feed = folder.file().with_file_name("feed.txt");
    fs::write(&feed, "10.3.0.0/16\n10.2.0.1\n").unwrap();
    let text = ratelimit.ok(&format!("list set drop {}", feed.display()));
    assert_eq!(text, "drop: deny, 2 entries (replaced: deny, 3 entries)\n");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 2]), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 3, 0, 1]), 10);
    let row = ratelimit.json("list show drop");
    assert_eq!([&row["hits"]["packets"], &row["file"]], [&json!(30), &json!(feed)]);
    let mut entries: Vec<_> = ratelimit.ok("list show drop --entries").lines().map(str::to_owned).collect();
    entries.sort();
    assert_eq!(entries, ["10.2.0.1", "10.3.0.0/16"]);

    assert_eq!(ratelimit.ok("list del drop"), "drop: list deleted with 2 entries\n");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 3, 0, 2]), 0);
    // What does not exist is no error of the command, but its status is 1.
    for words in ["list del drop", "list show drop"] {
        let output = ratelimit.run(words);
        assert_eq!((output.status, output.stdout.as_str()), (1, "there is no list drop\n"), "{words}");
    }
    let output = ratelimit.run("list del drop -j");
    assert_eq!((output.status, output.stdout.as_str()), (1, "{\"deleted\":null}\n"));
    assert_eq!(ratelimit.ok("list del drop --if-exists"), "there is no list drop\n");
    for words in ["list set .hidden -", "list set drop /nonexistent/feed", "list set drop - --deny --packets 5/s"] {
        assert_eq!(ratelimit.run_with(words, "10.0.0.1\n").status, 2, "{words}");
    }
    assert_eq!(ratelimit.json("list list"), json!([]));
    ratelimit.ok("detach --all");
}

#[test]
fn lines_that_cannot_be_used_are_named_and_strict_refuses_them() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok_with("list set drop - --for 1h", "10.9.9.9\n");
    let again = ratelimit.ok_with("list set drop -", "10.9.9.9\n");
    assert_eq!(again, "drop: deny, 1 entry, no longer ends (replaced: deny, 1 entry)\n");
    let before = ratelimit.json("list show drop --entries");
    let feed = "; a feed\n10.1.0.1/16 # host bits\n10.0.0.300\n198.51.100.4-198.51.100.9\n\"2024-05-01\",\"192.0.2.1\",\"443\"\n1.0.0.0/7\n";
    let strict = ratelimit.run_with("list set drop - --strict", feed);
    let named: Vec<_> = strict.stderr.lines().collect();
    assert_eq!(strict.status, 2);
    assert!(named[0].starts_with("ratelimit: line 3: 10.0.0.300: expected an address or a prefix"), "{named:?}");
    assert!(named[1].starts_with("ratelimit: line 6: "), "{named:?}");
    let refused =
        "ratelimit: standard input: 2 lines cannot be used: nothing was changed, without --strict they are skipped";
    assert_eq!(named[2..], [refused]);
    for empty in ["", "# nothing\n"] {
        let output = ratelimit.run_with("list set drop -", empty);
        let message = "standard input has no address: nothing was changed, `ratelimit list del drop` deletes the list";
        assert!(output.status == 2 && output.stderr.ends_with(&format!("ratelimit: {message}\n")), "{output:?}");
    }
    assert_eq!(ratelimit.json("list show drop --entries"), before);

    let output = ratelimit.run_with("list set drop -", feed);
    assert_eq!(output.stdout, "drop: deny, 4 entries (replaced: deny, 1 entry), 2 lines skipped\n");
    assert_eq!((output.status, output.stderr.lines().collect::<Vec<_>>()), (0, named[..2].to_vec()));
    let row = ratelimit.json("list show drop --entries");
    let mut entries: Vec<_> = row["list"].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap()).collect();
    entries.sort_unstable();
    assert_eq!(entries, ["10.1.0.0/16", "192.0.2.1", "198.51.100.4/30", "198.51.100.8/31"]);
    let answer: Value = serde_json::from_str(&ratelimit.run_with("list set drop - -j", feed).stdout).unwrap();
    assert_eq!([&answer["skipped"], &answer["replaced"]["entries"], &answer["entries"]], [2, 4, 4]);
    ratelimit.ok("detach --all");
}

/// Returns a feed of so many addresses.
pub(super) fn feed_of(entries: u8) -> String {
    (0..entries).map(|host| format!("10.1.{host}.1\n")).collect()
}

#[test]
fn a_command_refuses_a_page_more_bad_than_good_lines_and_a_list_that_loses_most_entries() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok_with("list set drop -", &feed_of(40));
    let before = ratelimit.json("list show drop --entries");
    for (feed, expected) in [
        ("<html>\n<p>Your address:\n192.0.2.9\n</html>\n".to_owned(), "is a web page, not a list: nothing was changed"),
        ("# feed\n192.0.2.9\nerror\nquota\n".to_owned(), "2 of 3 lines cannot be used, such as line 3: error: "),
        (
            feed_of(19),
            "standard input: the list drop falls from 40 to 19 entries: nothing was changed, --force sets it",
        ),
    ] {
        let output = ratelimit.run_with("list set drop -", &feed);
        assert!(output.status == 2 && output.stderr.contains(expected), "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    }
    assert_eq!(ratelimit.json("list show drop --entries"), before);
    ratelimit.ok_with("list set drop -", &feed_of(20));
    ratelimit.ok_with("list set drop - --force", &feed_of(3));
    // A short list may lose any of its entries.
    ratelimit.ok_with("list set drop -", &feed_of(1));
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_can_limit_its_sources_and_end_by_itself() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let text = ratelimit.ok_with("list set slow - --packets 1/h --burst 4", "10.1.0.0/16\n");
    assert_eq!(text, "slow: 1/h per source, burst 4, 1 entry\n");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 1]), 6);
    // A rule for the source outranks a list that limits.
    ratelimit.ok("limit set 10.1.0.2 --packets 1/h --burst 7");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 2]), 3);

    let text = ratelimit.ok_with("list set brief - --for 3s", "10.2.0.0/16\n");
    assert_eq!(text, "brief: deny, 1 entry, ends in 3s\n");
    let names = || {
        let rows = ratelimit.json("list list");
        rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["brief", "slow"]);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 2, 0, 1]), 10);
    while names() != ["slow"] {}
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 2, 0, 1]), 0);
    ratelimit.ok("detach --all");
}

#[test]
fn an_allowed_address_in_a_list_stays_allowed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("allow add 10.1.0.0/24");
    let allows = ratelimit.json("allow list");
    ratelimit.ok_with("list set drop -", "10.1.0.1\n10.1.0.0/25\n10.0.0.0/8\n");
    assert_eq!(ratelimit.json("allow list"), allows);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 0, 1]), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 1, 1, 1]), 10);
    ratelimit.ok("list del drop");
    assert_eq!(ratelimit.json("allow list"), allows);
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_that_lasts_longer_than_can_be_counted_has_no_end_as_a_rule_has() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for life in ["18446744074", "999999999d", "99999999999999999999999999999"] {
        let text = ratelimit.ok_with(&format!("list set evil - --for {life}"), "10.9.0.66\n");
        assert!(text.starts_with("evil: deny, 1 entry, without an end: --for is longer than 584 years"), "{text}");
        assert_eq!(ratelimit.json("list show evil")["expires_in_seconds"], json!(null));
        assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 66]), 10, "{life}");
    }
    let text = ratelimit.ok_with("list set evil - --for 200000d", "10.9.0.66\n");
    assert!(!text.contains("584"), "{text}");
    ratelimit.ok("detach --all");
}
