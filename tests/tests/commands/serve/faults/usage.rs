//! A file of usage that is damaged, and clients that want to fill the disk with it.

use std::{fs, path::Path};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::{RULES, Server, call, of_user, text};

/// Rows of the file, and the bytes that the documents promise for each of them.
const ROWS: u64 = 1_000;
const OF_ROW: u64 = 512;
/// Attributes of a client, each with a value as long as it is kept.
const ATTRIBUTES: usize = 20;

fn start(sandbox: &Sandbox, folder: &Folder, usage: &Path) -> Daemon {
    let socket = folder.file().with_file_name("check.sock");
    folder.write(&text(&socket, &format!("usage = \"{}\"\n{RULES}", usage.display())));
    Daemon::by(sandbox, Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display())))
}

#[test]
fn a_damaged_file_of_usage_keeps_no_limit_from_being_in_force() {
    let sandbox = Sandbox::new();
    let folder = Folder::new();
    let usage = folder.add("usage.db", "");
    // Zeros in place of the first page, and a text and an archive of something else.
    let archive = [&b"\x1f\x8b\x08\0"[..], &[0xab; 8_192]].concat();
    let text = b"of something else\n".repeat(500);
    for (bytes, is_damage) in [(vec![0; 8_192], true), (text, false), (archive, false)] {
        fs::write(&usage, &bytes).unwrap();
        let mut daemon = start(&sandbox, &folder, &usage);
        let (aside, line) = (usage.with_file_name("usage.db.damaged"), daemon.line());
        let expected = match is_damage {
            true => format!("ratelimit: the file of usage was damaged, and has the name {} now", aside.display()),
            false => "ratelimit: usage waits in memory until its file can be written: ".to_owned(),
        };
        assert!(line.starts_with(&expected), "{line}");
        assert!(daemon.line().starts_with("ratelimit: serving unix:"));
        let socket = folder.file().with_file_name("check.sock");
        let head = "POST /v1/check HTTP/1.1\r\ncontent-type: application/json";
        let statuses = (0..5).map(|_| call(&socket, head, &of_user("17").to_string()).status);
        assert_eq!(statuses.filter(|status| *status == 200).count(), 3);
        daemon.process.signal(Signal::TERM);
        assert!(daemon.process.wait().status.success());
        let kept = fs::read(if is_damage { &aside } else { &usage }).unwrap();
        assert!(kept == bytes, "the file was changed");
        assert_eq!(is_damage, fs::read(&usage).unwrap().starts_with(b"SQLite format 3"));
    }
}

#[test]
fn clients_with_the_longest_names_take_no_more_of_the_disk_than_the_documents_say() {
    let sandbox = Sandbox::new();
    let folder = Folder::new();
    let usage = folder.file().with_file_name("usage.db");
    let names: Vec<_> = (0..ATTRIBUTES).map(|number| format!("x-{number}")).collect();
    let named: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let keys = format!("usage = \"{}\"\nusage-rows = {ROWS}\nattributes = [{}]\n", usage.display(), named.join(", "));
    let rule = format!("[[check]]\nname = \"long\"\nkey = [{}]\nlimits = \"1/d\"\n", named.join(", "));
    let server = Server::start(&sandbox, &format!("{keys}{rule}"));
    let question = |client: usize| {
        let value = |number: usize| format!("{client}-{number}-{}", "x".repeat(110));
        let of = |(number, name): (usize, &String)| (name.clone(), Value::from(value(number)));
        json!({"attributes": names.iter().enumerate().map(of).collect::<serde_json::Map<_, _>>()})
    };
    for client in 0..2 * ROWS as usize {
        assert_eq!(server.check(&question(client)).status, 200);
    }
    let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    wait_until("the server writes its usage", || length(&usage) > 0 && lost(&server) > 0);
    let log = usage.with_file_name("usage.db-wal");
    println!("{} bytes, and {} of the log, for {ROWS} rows", length(&usage), length(&log));
    assert!(length(&usage) <= ROWS * OF_ROW, "{}", length(&usage));
    server.end();
    assert!(length(&usage) <= ROWS * OF_ROW && !log.exists(), "{}", length(&usage));
}

/// Returns the requests that found no room.
fn lost(server: &Server) -> u64 {
    let page = server.call("GET /metrics HTTP/1.1", "").body;
    let count = page.as_str().unwrap().lines().find_map(|line| line.strip_prefix("ratelimit_check_usage_lost_total "));
    count.unwrap().parse().unwrap()
}
