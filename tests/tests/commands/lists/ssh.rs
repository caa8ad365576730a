//! Named lists and the operator's SSH session.

use std::{fs, io::Write as _, net::TcpListener};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Output, Ratelimit, Sandbox, stdin};
use serde_json::json;

use super::{
    dropped,
    server::{line_with, request},
};
use crate::reload::ssh::log_in;

/// Runs a command with this list in an SSH session from 10.9.0.5.
fn through_ssh(ratelimit: &Ratelimit<'_>, words: &str, feed: &str) -> Output {
    let mut command = ratelimit.command(words);
    ratelimit.output(command.env("SSH_CONNECTION", "10.9.0.5 50000 10.9.0.1 22").stdin(stdin(feed)))
}

#[test]
fn a_list_that_shuts_out_an_ssh_session_requires_force() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let session = "ratelimit: this SSH session comes from 10.9.0.5, which would be ";
    for (options, fate) in [("", "denied"), ("--packets 1/h", "limited to 1/h per source, burst 1")] {
        let words = format!("list set drop - {options} --no-allow-ssh");
        let output = through_ssh(&ratelimit, &words, "10.9.0.0/24\n");
        assert_eq!(output.status, 2, "{output:?}");
        assert!(output.stderr.starts_with(&format!("{session}{fate}")), "{output:?}");
        assert!(output.stderr.ends_with(" by the list drop: nothing was changed, --force does it anyway; `ratelimit allow add 10.9.0.5` keeps the session\n"), "{output:?}");
        assert_eq!(ratelimit.json("list list"), json!([]));
        assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 6]), 0);
    }
    assert_eq!(through_ssh(&ratelimit, "list set drop - --no-allow-ssh", "10.8.0.0/24\n").status, 0);
    assert_eq!(through_ssh(&ratelimit, "list set drop - --no-allow-ssh", "10.9.0.5\n").status, 2);
    assert_eq!(ratelimit.ok("list show drop --entries"), "10.8.0.0/24\n");
    let forced = through_ssh(&ratelimit, "list set drop - --force", "10.9.0.0/24\n");
    assert_eq!(forced.status, 0);
    let warning = "ratelimit: warning: this SSH session comes from 10.9.0.5, which is now denied by the list drop\n";
    assert_eq!(forced.stderr, warning);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 5]), 10);
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_of_the_file_that_shuts_out_an_ssh_session_is_refused_unless_the_file_allows_its_address() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let feed = folder.file().with_file_name("feed.txt");
    fs::write(&feed, "10.9.0.0/24\n").unwrap();
    let list = format!("[[list]]\nname = \"drop\"\nfile = \"{}\"\n", feed.display());
    log_in(&sandbox, "1", "10.9.0.5", "active");
    let flood = Flood::of(Frame::udp([10, 9, 0, 5], 9)).start(&sandbox);
    folder.write(&format!("interfaces = [\"eth0\"]\n{list}"));
    let refused = daemon.line();
    assert!(flood.stop() > 0);
    assert!(
        refused.contains(
            "nothing was changed: an SSH session comes from 10.9.0.5, which would be denied by the list drop"
        ),
        "{refused}"
    );
    // Not one packet met the list before it was refused.
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 0);
    let flood = Flood::of(Frame::udp([10, 9, 0, 5], 9)).start(&sandbox);
    folder.write(&format!("interfaces = [\"eth0\"]\nallow = [\"10.9.0.5\"]\n{list}"));
    let accepted = daemon.line();
    assert!(flood.stop() > 0);
    assert!(accepted.contains("lists changed: drop"), "{accepted}");
    // The rule acts before the list does.
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 0);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 5]), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 6]), 10);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_of_a_server_cannot_shut_out_an_ssh_session_and_does_not_block_the_file() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let listener = sandbox.victim(|| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    folder.write(&format!(
        "interfaces = [\"eth0\"]\n[[list]]\nname = \"drop\"\nurl = \"http://127.0.0.1:{port}/drop\"\n\
         copy = \"/run/lists/drop\"\n"
    ));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let (mut stream, _) = request(&listener);
    log_in(&sandbox, "1", "10.9.0.5", "active");
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n10.9.0.0/24\n10.8.0.1\n").unwrap();
    let spared = "list drop: 10.9.0.0/24 left out, with the address of an SSH session; the next reload decides again";
    let line = line_with(&mut daemon, "lists changed: drop");
    assert!(line.contains(spared), "{line}");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 5]), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 8, 0, 1]), 10);

    // A restart with this list is not refused either.
    daemon.end();
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = line_with(&mut daemon, "in force");
    assert!(line.contains(spared), "{line}");
    sandbox.victim(|| fs::remove_file("/run/systemd/sessions/1").unwrap());
    ratelimit.ok("reload");
    line_with(&mut daemon, "lists changed: drop");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 5]), 10);
    daemon.end();
    ratelimit.ok("detach --all");
}

/// Only a list that denies a session is refused before the rules of the file are in force.
#[test]
fn a_file_that_takes_limits_away_is_not_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let feed = folder.file().with_file_name("feed.txt");
    fs::write(&feed, "10.9.0.0/24\n").unwrap();
    let (interfaces, wide) = ("interfaces = [\"eth0\"]\n", "[policy.wide]\npackets = \"1000/s\"\n");
    let list = format!("[[list]]\nname = \"office\"\nfile = \"{}\"\naction = \"wide\"\n{wide}", feed.display());
    let (default, rule) =
        ("[default]\npackets = \"10/s\"\n", "[[rule]]\nsource = \"10.9.0.0/24\"\npolicy = \"wide\"\n");
    let with_list = format!("{interfaces}{default}{list}");
    folder.write(&with_list);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    log_in(&sandbox, "1", "10.9.0.5", "active");
    for (file, is_good) in [
        (interfaces.to_owned(), true),
        (with_list.clone(), true),
        (format!("{interfaces}{default}{wide}{rule}"), true),
        (with_list, true),
        (format!("{interfaces}{default}"), false),
    ] {
        folder.write(&file);
        let line = daemon.line();
        assert_eq!(line.contains("lists changed: office"), is_good, "{file}{line}");
        assert_eq!(line.contains("an SSH session comes from 10.9.0.5"), !is_good, "{file}{line}");
    }
    daemon.end();
    ratelimit.ok("detach --all");
}

/// The allow of the file comes before its list, and goes again.
#[test]
fn a_refused_file_keeps_rules_and_bans() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let file = "interfaces = [\"eth0\"]\n[default]\npackets = \"1/h\"\nban = \"10m\"\n[[rule]]\nsource = \"10.9.0.3\"\npolicy = \"deny\"\ncomment = \"why\"\n";
    folder.write(file);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    log_in(&sandbox, "1", "10.9.0.5", "active");
    assert!(dropped(&sandbox, &ratelimit, [10, 9, 0, 2]) > 0);
    let rules = || {
        ["deny list", "allow list"].map(|words| {
            let mut rows = ratelimit.json(words);
            rows.as_array_mut().unwrap().iter_mut().for_each(|row| row["expires_in_seconds"] = json!(null));
            rows
        })
    };
    let before = rules();
    assert_eq!(before[0].as_array().unwrap().len(), 2);
    let feed = folder.file().with_file_name("feed.txt");
    fs::write(&feed, "10.9.0.4/31\n").unwrap();
    let list = format!("[[list]]\nname = \"drop\"\nfile = \"{}\"\n", feed.display());
    let allows = "interfaces = [\"eth0\"]\nallow = [\"10.9.0.2\", \"10.9.0.3\"]\n";
    folder.write(&format!("{allows}[default]\npackets = \"1/h\"\nban = \"10m\"\n{list}"));
    let line = daemon.line();
    assert!(
        line.contains(
            "nothing was changed: an SSH session comes from 10.9.0.5, which would be denied by the list drop"
        ),
        "{line}"
    );
    assert_eq!(rules(), before);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn the_address_of_the_session_is_allowed_before_its_list_acts() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let output = through_ssh(&ratelimit, "list set drop -", "10.9.0.5\n10.9.0.0/24\n");
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.stdout.starts_with("drop: deny, 1 entry\n  10.9.0.0/24 is not applied to 10.9.0.1 (an address of this host)\n10.9.0.5: allowed, because "), "{output:?}");
    assert_eq!(ratelimit.json("allow list")[0]["source"], "10.9.0.5");
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 5]), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, [10, 9, 0, 6]), 10);
    // Without the allow, the list would shut the session out.
    assert_eq!(through_ssh(&ratelimit, "allow del 10.9.0.5 --no-allow-ssh", "").status, 2);
    ratelimit.ok("detach --all");
}
