//! Callers with very many connections.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Daemon, Folder, PATIENCE, Ratelimit, Sandbox, scaled, wait_until};

use super::{
    super::{RULES, Server, text},
    OF_ONE, OTHERS, Taken, another_is_answered, call_of_another, check_answer, recover,
};
use crate::run::callers::limit_files;

/// The exit status of curl without a connection.
const CANNOT_CONNECT: i32 = 7;

#[test]
fn one_caller_cannot_take_all_connections() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let before = Taken::by(&server.daemon);
    let connections: Vec<_> = (0..3 * OF_ONE).map(|_| UnixStream::connect(&server.socket).unwrap()).collect();
    another_is_answered(&sandbox, &server.socket);
    let closed = || {
        let is_closed = |mut stream: &UnixStream| {
            stream.set_nonblocking(true).unwrap();
            match stream.read(&mut [0]) {
                Ok(count) => count == 0,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            }
        };
        connections.iter().filter(|stream| is_closed(stream)).count()
    };
    wait_until("the server closes two thirds of the connections", || closed() >= 2 * OF_ONE);
    let most = Taken::by(&server.daemon);
    assert!(most.files <= before.files + OF_ONE, "{most:?}");
    drop(connections);
    recover(&server.daemon, before);
    assert_eq!(server.call("GET /health HTTP/1.1", "").status, 200);
    server.end();
}

/// As [`another_is_answered`], while others connect faster than a busy machine accepts. The system then refuses those that
/// do not wait for a place in the queue of the socket, so curl tries again. A socket that nobody listens on is a failure.
fn another_gets_through(sandbox: &Sandbox, socket: &Path) -> Duration {
    let begin = Instant::now();
    let mut output = call_of_another(sandbox, socket);
    while output.status.code() == Some(CANNOT_CONNECT) && begin.elapsed() < PATIENCE {
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(!log.contains("Connection refused") && !log.contains("No such file"), "{log}");
        thread::sleep(Duration::from_millis(5));
        output = call_of_another(sandbox, socket);
    }
    check_answer(&output);
    begin.elapsed()
}

#[test]
#[ignore = "slow: cargo xtask faults --requests"]
fn a_hundred_thousand_connections_keep_no_other_caller_waiting() {
    const ALL: usize = 100_000;
    const OPEN: usize = 2_000;
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let before = Taken::by(&server.daemon);
    let has_ended = AtomicBool::new(false);
    let begin = Instant::now();
    let (answers, longest, most) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut answers, mut longest, mut most) = (0, Duration::ZERO, before);
            while !has_ended.load(Ordering::Relaxed) {
                longest = longest.max(another_gets_through(&sandbox, &server.socket));
                answers += 1;
                let now = Taken::by(&server.daemon);
                most = Taken { kilobytes: most.kilobytes.max(now.kilobytes), files: most.files.max(now.files) };
            }
            (answers, longest, most)
        });
        let mut open = VecDeque::new();
        for number in 0..ALL {
            let mut stream = UnixStream::connect(&server.socket).unwrap();
            // The server may have closed it.
            let _ = match number % 3 {
                0 => Ok(()),
                1 => stream.write_all(b"POST /v1/check HTTP/1.1\r\nhost:"),
                _ => stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"),
            };
            open.push_back(stream);
            if open.len() > OPEN {
                open.pop_front();
            }
        }
        has_ended.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    println!("{ALL} connections in {:?}: {answers} answers within {longest:?}, {most:?}", begin.elapsed());
    assert!(answers > 0 && longest < scaled(Duration::from_secs(4)), "{answers} answers within {longest:?}");
    assert!(most.files <= before.files + OF_ONE + OTHERS, "{most:?}");
    before.check_growth(most, 64);
    recover(&server.daemon, before);
    server.end();
}

#[test]
fn a_server_that_can_accept_no_connection_goes_on() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let process = server.daemon.process.child.id();
    limit_files(process, "3:");
    let waits: Vec<_> = (0..10).map(|_| UnixStream::connect(&server.socket).unwrap()).collect();
    // Callers that give up meanwhile change nothing.
    drop(waits);
    thread::sleep(Duration::from_millis(300));
    limit_files(process, "4096:");
    assert!(another_is_answered(&sandbox, &server.socket) < scaled(Duration::from_secs(2)));
    server.end();
}

#[test]
fn a_server_raises_its_open_files_and_says_what_too_few_of_them_mean() {
    let sandbox = Sandbox::new();
    let start = |limit: &str| {
        let folder = Folder::new();
        let socket = folder.file().with_file_name("check.sock");
        folder.write(&text(&socket, RULES));
        let inner = Ratelimit::new(&sandbox).command(&format!("serve -c {}", folder.file().display()));
        let mut command = std::process::Command::new("prlimit");
        command.arg(format!("--nofile={limit}")).arg(inner.get_program()).args(inner.get_args());
        Server { daemon: Daemon::by(&sandbox, command), socket, folder }
    };
    let mut raised = start("256:8192");
    let line = raised.daemon.line();
    assert!(line.starts_with("ratelimit: serving unix:"), "{line}");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", raised.daemon.process.child.id())).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().next(), Some("4160"), "{files}");
    raised.end();

    let mut few = start("256:256");
    let line = few.daemon.line();
    assert_eq!(line, "ratelimit: 192 connections are possible at a time, not 4096: allow 4160 open files");
    assert!(few.daemon.line().starts_with("ratelimit: serving unix:"));
    let connections: Vec<_> = (0..1_000).map(|_| UnixStream::connect(&few.socket).unwrap()).collect();
    another_is_answered(&sandbox, &few.socket);
    assert!(Taken::by(&few.daemon).files < 256);
    drop(connections);
    few.end();
}
