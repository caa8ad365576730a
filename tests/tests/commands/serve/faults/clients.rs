//! A million clients that ask once, beside clients that ask all the time.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    time::Instant,
};

use ratelimit_tests::Sandbox;
use serde_json::{Value, json};

use super::{super::Server, Taken};

const CLIENTS: usize = 1_000_000;
const OF_CALL: usize = 100;
const RULES: &str = "
[[check]]
name = \"few\"
match = { operation = \"few\" }
key = \"user\"
limits = \"5/d\"
algorithm = \"sliding-window\"
clients = 65536
[[check]]
name = \"many\"
match = { operation = \"many\" }
key = \"user\"
limits = \"2000/d\"
clients = 65536
";

/// A connection for many calls.
struct Line(BufReader<UnixStream>);

impl Line {
    fn ask(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
        self.0.get_mut().write_all((head + &body).as_bytes()).unwrap();
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest[..3].parse().unwrap();
            } else if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.trim().parse().unwrap();
            } else if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }
}

fn question(operation: &str, user: &str) -> Value {
    json!({"attributes": {"operation": operation, "user": user}})
}

#[test]
#[ignore = "slow: cargo xtask faults --requests"]
fn a_million_clients_take_bounded_memory_and_change_no_decision_about_busy_clients() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let before = Taken::by(&server.daemon);
    let mut line = Line(BufReader::new(UnixStream::connect(&server.socket).unwrap()));
    let (mut admitted, mut asked) = (0, 0_u64);
    let begin = Instant::now();
    for call in 0..CLIENTS / OF_CALL {
        let operation = if call % 2 == 0 { "few" } else { "many" };
        let user = |number| question(operation, &format!("u{}", call * OF_CALL + number));
        let requests: Vec<_> = (0..OF_CALL).map(user).collect();
        let (status, answer) = line.ask("/v1/check/batch", &json!({"requests": requests}));
        assert_eq!((status, &answer["allowed"]), (200, &Value::Bool(true)));
        if call % 10 == 0 {
            asked += 1;
            admitted += usize::from(line.ask("/v1/check", &question("few", "busy")).0 == 200);
            let (status, answer) = line.ask("/v1/check", &question("many", "busy"));
            // A token comes back each 43 seconds.
            let left = answer["remaining"].as_u64().unwrap();
            assert!(status == 200 && (2_000 - asked..2_020 - asked).contains(&left), "{asked} asked, {left} left");
        }
    }
    let after = Taken::by(&server.daemon);
    println!("{CLIENTS} clients in {:?}: {before:?}, then {after:?}", begin.elapsed());
    assert_eq!((admitted, asked), (5, 1_000));
    before.check_growth(after, 48);
    let metrics = server.call("GET /metrics HTTP/1.1", "").body;
    for rule in ["few", "many"] {
        let of = |name: &str| -> usize {
            let line = format!("{name}{{rule=\"{rule}\"}} ");
            metrics.as_str().unwrap().lines().find_map(|text| text.strip_prefix(&line)).unwrap().parse().unwrap()
        };
        assert!(of("ratelimit_check_clients") <= 65_536);
        assert!(of("ratelimit_check_recycled_clients_total") >= CLIENTS / 2 - 65_536);
    }
    server.end();
}
