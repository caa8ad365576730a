//! HTTP requests to the daemon: authentication, errors and slow clients.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::{PermissionsExt as _, symlink},
    time::{Duration, Instant},
};

use ratelimit_tests::{Flood, Folder, Frame, PATIENCE, Ratelimit, Sandbox, VICTIM_IPV4};

use super::{FILE, OK, ask, get, scrape, start};

const TOKEN: &str = "correct-horse-battery-staple";
const LOOPBACK: &str = "127.0.0.1:9464";

/// Writes a file with this text and mode beside the configuration.
fn secret(folder: &Folder, text: &str, mode: u32) -> String {
    let path = folder.file().with_file_name("token");
    let _ = fs::remove_file(&path);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.display().to_string()
}

fn listening(address: &str, token_file: &str) -> String {
    format!("{FILE}[metrics]\nlisten = \"{address}\"\ntoken-file = \"{token_file}\"\n")
}

#[test]
fn remote_scrapes_require_the_token() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let file = secret(&folder, &format!("{TOKEN}\n"), 0o640);
    let mut daemon = start(&sandbox, &ratelimit, &folder, &listening("0.0.0.0:9464", &file));
    let address = format!("{VICTIM_IPV4}:9464");
    let bearer = |token: &str| get(&sandbox, &address, &format!("Authorization: Bearer {token}\r\n"));
    for answer in [
        get(&sandbox, &address, ""),
        get(&sandbox, LOOPBACK, ""),
        bearer("correct-horse-battery-stapl"),
        bearer("correct-horse-battery-staple2"),
        bearer("Correct-horse-battery-staple"),
        bearer(""),
        get(&sandbox, &address, &format!("Authorization: Basic {TOKEN}\r\n")),
        get(&sandbox, &address, "Authorization: B\r\n"),
        ask(&sandbox, &address, "GET / HTTP/1.0\r\n\r\n"),
    ] {
        assert!(answer.contains(" 401 Unauthorized\r\n") && !answer.contains("ratelimit_"), "{answer}");
        assert!(answer.contains("\r\nwww-authenticate: Bearer\r\n"), "{answer}");
    }
    assert!(bearer(TOKEN).starts_with(OK));
    // The file mode in the daemon's folder decides about access.
    assert_eq!(scrape(&ratelimit)["ratelimit_instance_up"], 1.0);

    // The new token applies from the next read on.
    secret(&folder, "another-horse-battery-staple", 0o640);
    ratelimit.ok("reload");
    daemon.line();
    assert!(bearer(TOKEN).contains(" 401 ") && bearer("another-horse-battery-staple").starts_with(OK));
    secret(&folder, "another-horse-battery-staple", 0o644);
    let line = ratelimit.fails("reload");
    assert!(line.contains("every user of this machine has access to it: run `chmod o= "), "{line}");
    assert!(bearer("another-horse-battery-staple").starts_with(OK));
    drop(daemon);
    ratelimit.ok("detach --all");
}

#[test]
fn check_reports_insecure_metrics_settings() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let check = |text: &str| {
        folder.write(text);
        let output = ratelimit.run(&format!("check {}", folder.file().display()));
        let begin = format!("{}:", folder.file().display());
        (output.status, output.stdout.trim_end().replace(&begin, ""))
    };
    let good = secret(&folder, TOKEN, 0o600);
    for text in [
        "[metrics]\n".to_owned(),
        "[metrics]\nlisten = \"[::1]:9464\"\nsources = 1000".to_owned(),
        format!("[metrics]\nlisten = \"[::]:9464\"\ntoken-file = \"{good}\""),
    ] {
        let (status, answer) = check(&text);
        assert_eq!((status, answer.lines().next()), (0, Some(" good, with 0 interfaces and 0 rules")), "{text}");
        assert!(answer.contains("no interface"), "{answer}");
    }
    let expected = |place: &str, message: &str| (1, format!("{place}: {message}"));
    let alone = "other machines can reach this address: add token-file, or listen on 127.0.0.1 or [::1]";
    for (text, place, message) in [
        ("listen = \"0.0.0.0:9464\"", "2:10: \"0.0.0.0:9464\"", alone),
        ("listen = \"[::ffff:127.0.0.1]:9464\"", "2:10: \"[::ffff:127.0.0.1]:9464\"", alone),
        (
            "listen = \"localhost:9464\"",
            "2:10: \"localhost:9464\"",
            "expected an address and a port, such as 127.0.0.1:9464 or [::1]:9464",
        ),
        (
            "listen = \"127.0.0.1:0\"",
            "2:10: \"127.0.0.1:0\"",
            "expected an address and a port, such as 127.0.0.1:9464 or [::1]:9464",
        ),
        ("sources = 1001", "2:11: 1001", "expected a number from 0 to 1000"),
        ("source = 10", "2:1: source", "unknown key: did you mean sources?"),
        ("token-file = \"/t\"", "2:14: \"/t\"", "cannot be read: No such file or directory (os error 2)"),
        ("listen = \"[::]:9\"\ntoken-file = \"t\"", "3:14: \"t\"", "expected an absolute path"),
        ("listen = \"[::]:9\"\ntoken-file = \"/dev\"", "3:14: \"/dev\"", "is not a regular file"),
    ] {
        let found = check(&format!("[metrics]\n{text}\n"));
        if text.starts_with("token-file") {
            assert!(
                found.1.starts_with(&expected(place, message).1)
                    && found.1.contains("the token is used for listen only: add listen, or remove token-file"),
                "{found:?}"
            );
        } else {
            assert_eq!(found, expected(place, message), "{text}");
        }
    }
    let short = "expected one line with 16 to 4096 letters, digits and punctuation marks in it";
    let open = format!("every user of this machine has access to it: run `chmod o= {good}`");
    for (content, mode, message) in [
        ("short", 0o600, short),
        ("two words of a token", 0o600, short),
        (TOKEN, 0o604, open.as_str()),
        (TOKEN, 0o602, &open),
    ] {
        let file = secret(&folder, content, mode);
        let place = format!("5:14: \"{file}\"");
        let found = check(&listening("0.0.0.0:9464", &file).replace("burst = 4\n", ""));
        assert_eq!(found, expected(&place.replace("5:", "6:"), message), "{content} {mode:o}");
    }
    // The mode of the link target decides.
    let file = secret(&folder, TOKEN, 0o644);
    let link = folder.file().with_file_name("link");
    symlink(&file, &link).unwrap();
    let (status, _) = check(&listening("0.0.0.0:9464", &link.display().to_string()));
    assert_eq!(status, 1);
    assert!(sandbox.pins().is_empty());
}

#[test]
fn other_requests_get_short_error_responses() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let daemon = start(&sandbox, &ratelimit, &folder, &format!("{FILE}[metrics]\nlisten = \"{LOOPBACK}\"\n"));
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(10_000));
    for (request, begin) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"),
        (
            "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx",
            "HTTP/1.1 405 Method Not Allowed\r\n",
        ),
        (&long, "HTTP/1.1 431 Request Header Fields Too Large\r\n"),
        ("\x16\x03\x01\x02\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"),
    ] {
        let answer = ask(&sandbox, LOOPBACK, request);
        assert!(answer.starts_with(begin) && answer.len() < 300, "{request:.40}: {answer}");
    }
    let head = ask(&sandbox, LOOPBACK, "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with(OK) && head.ends_with("\r\n\r\n"), "{head}");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn silent_clients_are_disconnected_and_do_not_block_commands() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let mut daemon = start(&sandbox, &ratelimit, &folder, &format!("{FILE}[metrics]\nlisten = \"{LOOPBACK}\"\n"));
    let begin = Instant::now();
    // More connections than the daemon serves at a time.
    let silent: Vec<TcpStream> = sandbox.victim(|| (0..40).map(|_| TcpStream::connect(LOOPBACK).unwrap()).collect());
    for mut stream in &silent {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nX").unwrap();
    }
    assert_eq!(scrape(&ratelimit)["ratelimit_instance_up"], 1.0);
    ratelimit.ok("reload");
    daemon.line();
    // The last one still waits: neither command had to wait for it.
    let last = silent.last().unwrap();
    last.set_nonblocking(true).unwrap();
    assert_eq!(last.peek(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    last.set_nonblocking(false).unwrap();
    // The daemon serves all of them in turn.
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => assert!(!answer.starts_with(OK.as_bytes())),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }
    assert!(begin.elapsed() >= Duration::from_secs(4), "{:?}", begin.elapsed());
    assert!(get(&sandbox, LOOPBACK, "").starts_with(OK));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn sources_are_exported_only_if_the_file_enables_them() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let text = format!("{FILE}[settings]\nfront = false\n[service.\"udp/9\"]\npackets = \"1/h\"\nburst = 2\n");
    let mut daemon = start(&sandbox, &ratelimit, &folder, &text);
    for (host, packets) in [(1, 10), (2, 30), (3, 20)] {
        Flood::of(Frame::udp([10, 8, 0, host], 9)).send(&sandbox, packets);
    }
    Flood::of(Frame::udp([10, 8, 0, 2], 10)).send(&sandbox, 7);
    let named = || {
        let scrape = scrape(&ratelimit);
        let found = scrape.into_iter().filter(|(name, _)| name.starts_with("ratelimit_source_packets_total"));
        found
            .map(|(name, value)| format!("{} {value}", name.trim_start_matches("ratelimit_source_packets_total")))
            .collect::<Vec<_>>()
    };
    assert!(named().is_empty());
    folder.write(&format!("{text}[metrics]\nsources = 2\n"));
    daemon.line();
    assert_eq!(
        named(),
        [
            "{source=\"10.8.0.2\",service=\"udp/9\",verdict=\"drop\"} 28",
            "{source=\"10.8.0.2\",service=\"udp/9\",verdict=\"pass\"} 2",
            "{source=\"10.8.0.3\",service=\"udp/9\",verdict=\"drop\"} 18",
            "{source=\"10.8.0.3\",service=\"udp/9\",verdict=\"pass\"} 2",
        ]
    );
    folder.write(&format!("{text}[metrics]\nsources = 1000\n"));
    daemon.line();
    assert_eq!(named().len(), 8);
    daemon.end();
    ratelimit.ok("detach --all");
}

/// Prometheus keeps each time series long after its source is gone.
#[test]
fn rotating_sources_make_no_more_time_series_than_the_key_says() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let text = format!("{FILE}[settings]\nfront = false\n[service.\"udp/9\"]\npackets = \"1/h\"\nburst = 2\n");
    let daemon = start(&sandbox, &ratelimit, &folder, &format!("{text}[metrics]\nsources = 5\n"));
    let mut all = BTreeSet::new();
    for reading in 0..12u8 {
        // Each time, other sources are the worst.
        for host in 1..=5 {
            Flood::of(Frame::udp([10, 8, reading, host], 9)).send(&sandbox, 10 + 5 * u64::from(reading));
        }
        let names = scrape(&ratelimit).into_keys().filter(|name| name.starts_with("ratelimit_source_"));
        let names: Vec<_> = names.collect();
        assert!(names.len() <= 5 * 4, "{names:?}");
        all.extend(names);
    }
    // One more source can have got a name meanwhile, if the readings took twelve minutes.
    assert_eq!(all.len(), 5 * 4, "{all:?}");
    assert!(all.iter().all(|name| name.contains("source=\"10.8.0.")), "{all:?}");
    daemon.end();
    ratelimit.ok("detach --all");
}
