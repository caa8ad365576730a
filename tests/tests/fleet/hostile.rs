//! Engines, hosts and records that lie.

use ratelimit_fleet::key::Key;
use ratelimit_tests::{Redis, Sandbox};
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

/// Accepts what a client says of itself. Then gives this answer to every call, or closes the connection if it is empty.
pub(crate) async fn lie(listener: TcpListener, answer: String) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let answer = answer.clone();
        tokio::spawn(async move {
            // A read can have several commands, or a part of one.
            let (mut received, mut answered) = (Vec::new(), [0; 2]);
            while !answer.is_empty() && stream.read_buf(&mut received).await.is_ok_and(|length| length > 0) {
                let count = |word: &[u8]| received.windows(word.len()).filter(|part| *part == word).count();
                let [greetings, calls] = [count(b"\r\nSETINFO\r\n"), count(b"\r\nEVALSHA\r\n")];
                let text = "+OK\r\n".repeat(greetings - answered[0]) + &answer.repeat(calls - answered[1]);
                answered = [greetings, calls];
                if stream.write_all(text.as_bytes()).await.is_err() {
                    break;
                }
            }
        });
    }
}
