//! Engines, hosts and records that lie, and servers that cannot be the engine.

use std::time::Duration;

use ratelimit_fleet::{
    address::{Address, Kind},
    engine::Engine,
    key::Key,
};
use ratelimit_tests::{Redis, Sandbox, VICTIM_IPV4};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::engine::{LIMIT, engine, message, report, try_at};

#[test]
fn a_report_or_a_record_that_makes_no_sense_changes_no_share_of_others() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    Redis::at_the_peer(&sandbox, async || {
        let engine = engine().await;
        let honest = [message("192.0.2.1", 3_000.0, 3_000.0)];
        let first = report(&engine, &honest).await.unwrap()[0].share;
        for wrong in [f64::INFINITY, f64::NAN, -1.0, 1e300] {
            let mut lie = message("192.0.2.1", 1.0, 1.0);
            lie.report.own = wrong;
            lie.report.offered = wrong;
            assert!(report(&engine, &[lie]).await.is_err());
        }
        let key = Key::of("192.0.2.1", &LIMIT);
        let client = redis::Client::open(Redis::url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        for words in [
            vec!["SET".into(), key.as_str().into(), vec![0xff; 41]],
            vec!["HSET".into(), key.as_str().into(), "a".into(), "b".into()],
        ] as [Vec<Vec<u8>>; 2]
        {
            redis::cmd("DEL").arg(key.as_str()).exec_async(&mut connection).await.unwrap();
            let mut command = redis::Cmd::new();
            command.arg(&words[..]).exec_async(&mut connection).await.unwrap();
            assert_eq!(report(&engine, &honest).await.unwrap()[0].share, first);
        }
    });
}

#[test]
fn the_engine_is_the_first_server_of_a_list_that_can_write() {
    let sandbox = Sandbox::new();
    let _primary = Redis::start(&sandbox, &[]);
    let url = |port: &u16| format!("redis://{VICTIM_IPV4}:{port}");
    // At 6380 is a replica that only reads, at 6381 a server that accepts and is silent, and at 6382 none.
    let _replica = Redis::start_another(&sandbox, 6380, &["--replicaof", "127.0.0.1", "6379"]);
    let silent = sandbox.victim(|| std::net::TcpListener::bind((VICTIM_IPV4, 6381)).unwrap());
    Redis::at_the_peer(&sandbox, async || {
        let connect = async |urls: &[u16]| {
            let urls: Vec<_> = urls.iter().map(url).collect();
            let address = Address::new(&urls, Kind::Single, None, None).unwrap();
            Engine::connect(&address, Duration::from_secs(2)).await
        };
        let engine = connect(&[6380, 6382, 6381, 6379]).await.unwrap();
        report(&engine, &[message("192.0.2.1", 10.0, 10.0)]).await.unwrap();
        let error = connect(&[6380]).await.err().unwrap().to_string();
        assert_eq!(error, "it is a replica, which only reads: name its primary");
        let error = connect(&[6381, 6382]).await.err().unwrap().to_string();
        assert!(error.starts_with(&format!("{VICTIM_IPV4}:6381: no answer; {VICTIM_IPV4}:6382: ")), "{error}");
        let error = connect(&[6380, 6382]).await.err().unwrap().to_string();
        let expected =
            format!("{VICTIM_IPV4}:6380: it is a replica, which only reads: name its primary; {VICTIM_IPV4}:6382: ");
        assert!(error.starts_with(&expected), "{error}");
    });
    drop(silent);
}

#[test]
fn an_engine_that_answers_garbage_is_an_error() {
    let long = format!("${}\r\n{}\r\n", 10 << 20, "x".repeat(10 << 20));
    for answer in [
        "garbage\r\n",
        "$3\r\nnow\r\n",
        "*1\r\n$3\r\nnow\r\n",
        // A share that is no number.
        "$24\r\n\0\0\0\0\0\0\u{1}\u{1}\0\0\0\0\0\0\u{1}\u{1}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\r\n",
        "*-1\r\n",
        ":5\r\n",
        "-\u{1b}[2J\u{7}error\r\n",
        &long,
        "",
    ] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("redis://{}", listener.local_addr().unwrap());
            tokio::spawn(lie(listener, answer.to_owned()));
            try_at(&url, &[message("192.0.2.1", 10.0, 10.0)]).await.unwrap_err().to_string()
        });
        assert!(!error.contains(char::is_control) && error.len() < 200, "{error:?}");
    }
}

/// Accepts what a client says of itself, and tells nothing about the server. Then gives this answer to every call, or closes the connection if it is empty.
pub(crate) async fn lie(listener: TcpListener, answer: String) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let answer = answer.clone();
        tokio::spawn(async move {
            // A read can have several commands, or a part of one.
            let (mut received, mut answered) = (Vec::new(), [0; 3]);
            while !answer.is_empty() && stream.read_buf(&mut received).await.is_ok_and(|length| length > 0) {
                let count = |word: &[u8]| received.windows(word.len()).filter(|part| *part == word).count();
                let now = [&b"\r\nSETINFO\r\n"[..], b"\r\nINFO\r\n", b"\r\nEVALSHA\r\n"].map(count);
                let [greetings, questions, calls] = [0, 1, 2].map(|kind| now[kind] - answered[kind]);
                let text = "+OK\r\n".repeat(greetings) + &"-NOPERM\r\n".repeat(questions) + &answer.repeat(calls);
                answered = now;
                if stream.write_all(text.as_bytes()).await.is_err() {
                    break;
                }
            }
        });
    }
}
