//! The client in the library, with servers that fail.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, http::StatusCode, routing::post};
use ratelimit_client::caller::{Caller, Options, Question, Undecided};
use ratelimit_tests::{Folder, Sandbox};
use rustix::process::Signal;
use tokio::{net::UnixListener, task::JoinSet};

use super::{PATIENT, WIDE, block_on, caller, named, question};
use crate::serve::{RULES, Server};

#[test]
fn no_request_fails_when_one_of_three_servers_is_killed() {
    const TASKS: usize = 8;
    let sandbox = Sandbox::new();
    let [first, second, mut killed] = [(); 3].map(|()| Server::start(&sandbox, WIDE));
    let caller = Arc::new(caller(&[&first, &second, &killed], PATIENT));
    let asked = Arc::new(AtomicUsize::new(0));
    block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let (caller, asked) = (Arc::clone(&caller), Arc::clone(&asked));
            tasks.spawn(async move {
                let mut answers = Vec::new();
                for _ in 0..200 {
                    answers.push(caller.check(&question()).await);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                answers
            });
        }
        while asked.load(Ordering::Relaxed) < 50 * TASKS {
            tokio::task::yield_now().await;
        }
        killed.daemon.process.signal(Signal::KILL);
        assert!(!killed.daemon.process.wait().status.success());
        assert!(asked.load(Ordering::Relaxed) < 200 * TASKS);
        let mut count = 0;
        for answer in tasks.join_all().await.into_iter().flatten() {
            assert_eq!((answer.undecided, answer.is_allowed), (None, true));
            count += 1;
        }
        assert_eq!(count, 200 * TASKS);
    });
    first.end();
    second.end();
}

#[test]
fn a_server_that_hangs_is_left_out_for_longer_each_time_and_comes_back() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, WIDE);
    let time = Duration::from_millis(50);
    let options = Options { try_time: time, total_time: time * 2, ..PATIENT };
    let caller = caller(&[&server], options);
    server.daemon.process.signal(Signal::STOP);
    block_on(async {
        let mut asked: Vec<(Instant, Instant)> = Vec::new();
        while asked.len() < 4 {
            let begin = Instant::now();
            let answer = caller.check(&question()).await;
            assert!(answer.is_allowed);
            match answer.undecided {
                Some(Undecided::NoServer(Some(last))) => {
                    assert!(matches!(*last, Undecided::Late { .. }), "{last:?}");
                    tokio::task::yield_now().await;
                }
                Some(Undecided::Late { .. }) => asked.push((begin, Instant::now())),
                other => panic!("{other:?}"),
            }
        }
        // The time that it is left out is at least the half of 100, 200 and 400 ms. Both questions take their time too.
        for (pair, least) in asked.windows(2).zip([50, 100, 200]) {
            let between = pair[1].1 - pair[0].0;
            assert!(between >= time * 2 + Duration::from_millis(least), "{between:?}");
        }
        server.daemon.process.signal(Signal::CONT);
        let begin = Instant::now();
        while !caller.check(&question()).await.is_decided() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            tokio::task::yield_now().await;
        }
    });
    drop(caller);
    server.end();
}

#[test]
fn a_server_that_hangs_costs_its_time_and_the_other_one_decides() {
    let sandbox = Sandbox::new();
    let [server, hung] = [(); 2].map(|()| Server::start(&sandbox, WIDE));
    hung.daemon.process.signal(Signal::STOP);
    // The hung one is asked first.
    let options = Options { try_time: Duration::from_millis(500), ..PATIENT };
    let caller = caller(&[&hung, &server], options);
    block_on(async {
        let begin = Instant::now();
        assert!(caller.check(&question()).await.is_decided());
        assert!(begin.elapsed() >= Duration::from_millis(500));
        for _ in 0..100 {
            assert!(caller.check(&question()).await.is_decided());
        }
    });
    drop(caller);
    hung.daemon.process.signal(Signal::CONT);
    hung.end();
    server.end();
}

#[test]
fn questions_that_wait_for_others_of_this_process_are_no_failures_of_the_server() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, WIDE);
    server.daemon.process.signal(Signal::STOP);
    let time = Duration::from_millis(50);
    let caller = Arc::new(caller(&[&server], Options { try_time: time, calls: 1, ..PATIENT }));
    let reasons = block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..3 {
            let caller = Arc::clone(&caller);
            tasks.spawn(async move { caller.check(&question()).await.undecided.unwrap() });
        }
        tasks.join_all().await
    });
    // One had the whole time. The others had what was left of theirs, if any.
    let failed = |reason: &&Undecided| matches!(reason, Undecided::Late { time: had, .. } if *had == time);
    assert_eq!(reasons.iter().filter(failed).count(), 1, "{reasons:?}");
    let waited = |reason: &&Undecided| match reason {
        Undecided::Busy { .. } => true,
        Undecided::Late { time: had, .. } => *had < time,
        _ => false,
    };
    assert_eq!(reasons.iter().filter(waited).count(), 2, "{reasons:?}");
    server.daemon.process.signal(Signal::CONT);
    // One connection is enough for many tasks.
    let caller = Arc::new(Caller::new([named(&server.socket)], Options { calls: 1, ..PATIENT }).unwrap());
    block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..50 {
            let caller = Arc::clone(&caller);
            tasks.spawn(async move { caller.check(&question()).await.is_decided() });
        }
        assert!(tasks.join_all().await.into_iter().all(|is_decided| is_decided));
    });
    drop(caller);
    server.end();
}

#[test]
fn requests_are_allowed_without_a_server() {
    let folder = Folder::new();
    let caller = Caller::new([named(&folder.file())], Options::default()).unwrap();
    block_on(async {
        let answer = caller.check(&question()).await;
        assert!(answer.is_allowed);
        let reason = answer.undecided.unwrap().to_string();
        assert!(reason.ends_with("does `ratelimit serve` run there, and may this user open the socket?"), "{reason}");
        let answers = caller.check_all(&[question()]).await;
        assert!(answers.are_allowed && answers.undecided.is_some());
        assert!(caller.wait(&question(), Duration::ZERO).await.is_allowed);
    });
}

#[test]
fn a_question_that_no_server_can_read_leaves_no_server_out() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let caller = caller(&[&server], PATIENT);
    block_on(async {
        let huge = "x".repeat(1 << 20);
        let many = (0..33).map(|number| (number.to_string(), String::new())).collect();
        for (attributes, expected) in [
            (many, "attributes: at most 32 are possible"),
            (vec![("path".to_owned(), huge)], "a question has at most 65536 bytes, not 1048611"),
        ] {
            let answer = caller.check(&Question::new(attributes)).await;
            assert_eq!((answer.is_allowed, answer.undecided), (true, Some(Undecided::Question(expected.to_owned()))));
            assert!(caller.check(&question()).await.is_decided());
        }
    });
    drop(caller);
    server.end();
}

#[test]
fn answers_of_other_servers_decide_nothing_and_their_size_is_bounded() {
    let folder = Folder::new();
    let socket = folder.file().with_file_name("other.sock");
    block_on(async {
        let listener = UnixListener::bind(&socket).unwrap();
        let padding = " ".repeat(1 << 20);
        let answers = [
            (StatusCode::INTERNAL_SERVER_ERROR, "{\"allowed\": true}".to_owned()),
            (StatusCode::OK, "{\"allowed\": false}".to_owned()),
            (StatusCode::TOO_MANY_REQUESTS, "<html>".to_owned()),
            (StatusCode::OK, format!("{{\"allowed\": true{padding}}}")),
            (StatusCode::OK, "{\"allowed\": true}".to_owned()),
        ];
        let next = Arc::new(AtomicUsize::new(0));
        let app = Router::new().route(
            "/v1/check",
            post(move || {
                let answer = answers[next.fetch_add(1, Ordering::Relaxed)].clone();
                async { answer }
            }),
        );
        let serving = tokio::spawn(async { axum::serve(listener, app).await });
        for expected in ["500 without a decision", "200 without", "429 without", "length limit exceeded"] {
            // Each of them would be left out after its failure.
            let caller = Caller::new([named(&socket)], PATIENT).unwrap();
            let answer = caller.check(&question()).await;
            assert!(answer.is_allowed);
            let reason = answer.undecided.unwrap().to_string();
            assert!(reason.contains(expected), "{reason}");
        }
        let caller = Caller::new([named(&socket)], PATIENT).unwrap();
        assert!(caller.check(&question()).await.is_decided());
        serving.abort();
    });
}
