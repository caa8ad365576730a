//! Callers that never read their answers.

use std::{io::Write as _, os::unix::net::UnixStream, time::Duration};

use ratelimit_tests::Sandbox;

use super::{
    super::{RULES, Server},
    Taken, another_is_answered, recover,
};

/// The connections that may wait for their callers.
const WAITING: usize = 64;

#[test]
#[ignore = "slow: cargo xtask faults --requests"]
fn a_caller_that_reads_no_answers_loses_its_connections_after_ten_seconds() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let before = Taken::by(&server.daemon);
    let calls = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
    let unread: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = UnixStream::connect(&server.socket).unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(10))).unwrap();
            // Both directions are full then.
            while stream.write_all(calls.as_bytes()).is_ok() {}
            stream
        })
        .collect();
    let most = Taken::by(&server.daemon);
    println!("{before:?}, then {most:?}");
    // A further one takes the place of the one that waits for the longest time.
    assert!(most.files > before.files + WAITING / 2 && most.files <= before.files + WAITING + 1, "{most:?}");
    before.check_growth(most, 64);
    another_is_answered(&sandbox, &server.socket);
    recover(&server.daemon, before);
    drop(unread);
    server.end();
}
