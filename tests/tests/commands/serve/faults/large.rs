//! Keys of ten megabytes.

use std::{io::Write as _, os::unix::net::UnixStream, thread};

use ratelimit_tests::Sandbox;
use serde_json::json;

use super::{
    super::{Answer, RULES, Server, answer, of_user},
    Taken, another_is_answered, recover,
};

const SIZE: usize = 10 << 20;

/// Calls with a request of any size. The server may answer before it has read all.
fn send(server: &Server, parts: &[&str]) -> Answer {
    let mut stream = UnixStream::connect(&server.socket).unwrap();
    for part in parts {
        if stream.write_all(part.as_bytes()).is_err() {
            break;
        }
    }
    answer(stream)
}

#[test]
fn a_key_of_ten_megabytes_gets_an_error_and_no_memory() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let before = Taken::by(&server.daemon);
    let key = "k".repeat(SIZE);
    let body = of_user(&key).to_string();
    let end = "host: localhost\r\nconnection: close\r\n";
    let sized = format!("POST /v1/check HTTP/1.1\r\n{end}content-length: {}\r\n\r\n", body.len());
    let chunked = format!("POST /v1/check HTTP/1.1\r\n{end}transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len());
    let header = "GET /v1/nginx HTTP/1.1\r\nx-attribute-user: ";
    let most = thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    for head in [&sized, &chunked] {
                        let answer = send(&server, &[head, &body]);
                        let error = json!({"error": "a body has at most 65536 bytes"});
                        assert_eq!((answer.status, answer.body), (413, error));
                    }
                    assert_eq!(send(&server, &[header, &key, "\r\n", end, "\r\n"]).status, 431);
                    let path = send(&server, &["GET /", &key, " HTTP/1.1\r\n", end, "\r\n"]).status;
                    assert!([414, 431].contains(&path), "{path}");
                })
            })
            .collect();
        let mut most = 0;
        while !calls.iter().all(thread::ScopedJoinHandle::is_finished) {
            most = most.max(Taken::by(&server.daemon).kilobytes);
            another_is_answered(&sandbox, &server.socket);
        }
        most
    });
    println!("{before:?}, at most {most} kB");
    before.check_growth(Taken { kilobytes: most, ..before }, 32);
    // The largest key that fits is one client as any other.
    let largest = "k".repeat(65_000);
    assert_eq!(server.check(&of_user(&largest)).body["remaining"], 2);
    assert_eq!(server.check(&of_user(&largest)).body["remaining"], 1);
    recover(&server.daemon, before);
    server.end();
}
