//! Callers that send byte by byte, stop in the middle of a call, or leave.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{PATIENCE, Sandbox, scaled};
use rustix::net::{RecvFlags, recv};

use super::{
    super::{RULES, Server, answer},
    Taken, another_is_answered, recover,
};

const HEAD: &str = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 1000\r\n\r\n";

#[test]
fn callers_that_leave_in_the_middle_of_a_call_leave_nothing_behind() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let before = Taken::by(&server.daemon);
    for number in 0..5_000 {
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        let count = number % HEAD.len();
        stream.write_all(&HEAD.as_bytes()[..count]).unwrap();
    }
    for _ in 0..1_000 {
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        write!(stream, "{HEAD}{{\"attributes\"").unwrap();
    }
    another_is_answered(&sandbox, &server.socket);
    recover(&server.daemon, before);
    before.check_growth(Taken::by(&server.daemon), 32);
    server.end();
}

#[test]
fn a_body_that_does_not_arrive_is_answered_after_five_seconds() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let begin = Instant::now();
    let hung: Vec<_> = (0..500)
        .map(|number| {
            let mut stream = UnixStream::connect(&server.socket).unwrap();
            write!(stream, "{HEAD}{}", &"{\"attributes\": {"[..number % 16]).unwrap();
            stream
        })
        .collect();
    let mut slow = UnixStream::connect(&server.socket).unwrap();
    slow.write_all(HEAD.as_bytes()).unwrap();
    // Others are answered while these calls have no answer.
    let has_answer = || recv(&hung[0], &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT).is_ok();
    another_is_answered(&sandbox, &server.socket);
    assert!(!has_answer(), "another caller waited for those that hang");
    while !has_answer() {
        // The server may have ended the call meanwhile.
        let _ = slow.write_all(b" ");
        another_is_answered(&sandbox, &server.socket);
    }
    for stream in hung.into_iter().chain([slow]) {
        let answer = answer(stream);
        assert_eq!((answer.status, answer.body["error"].as_str()), (408, Some("the call took longer than 5 seconds")));
    }
    let time = begin.elapsed();
    assert!(time >= Duration::from_secs(5) && time < scaled(Duration::from_secs(9)), "{time:?}");
    server.end();
}

#[test]
#[ignore = "slow: cargo xtask faults --requests"]
fn a_head_that_arrives_byte_by_byte_ends_after_ten_seconds() {
    const PAUSE: Duration = Duration::from_millis(200);
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let before = Taken::by(&server.daemon);
    let begin = Instant::now();
    let mut slow: Vec<_> = (0..1_000).map(|_| UnixStream::connect(&server.socket).unwrap()).collect();
    let ended = HEAD.bytes().cycle().find_map(|byte| {
        slow.retain_mut(|stream| stream.write_all(&[byte.to_ascii_lowercase()]).is_ok());
        another_is_answered(&sandbox, &server.socket);
        thread::sleep(PAUSE);
        (slow.is_empty() || begin.elapsed() > PATIENCE).then(|| begin.elapsed())
    });
    let ended = ended.unwrap().as_secs_f64();
    println!("the last of 1,000 ended after {ended:.1} s");
    let most = scaled(Duration::from_secs(15)).as_secs_f64();
    assert!(slow.is_empty() && (9.0..most).contains(&ended), "{} left after {ended} s", slow.len());
    recover(&server.daemon, before);
    server.end();
}

#[test]
#[ignore = "slow: cargo xtask faults --requests"]
fn an_idle_connection_ends_after_ten_seconds() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let mut idle = UnixStream::connect(&server.socket).unwrap();
    idle.set_read_timeout(Some(PATIENCE)).unwrap();
    idle.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let begin = Instant::now();
    let mut received = Vec::new();
    assert!(idle.read_to_end(&mut received).is_ok(), "{:?}", begin.elapsed());
    assert!(received.starts_with(b"HTTP/1.1 200"));
    let time = begin.elapsed();
    assert!(time >= Duration::from_secs(9) && time < scaled(Duration::from_secs(15)), "{time:?}");
    server.end();
}
