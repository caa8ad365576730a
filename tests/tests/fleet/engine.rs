//! The engine against a real Redis server: shares, faults of the server, and answers that make no sense.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_common::fleet::{
    demand::Demand,
    share::{Answer, Limit, Record, Report, Terms},
};
use ratelimit_fleet::{
    address::{Address, Kind},
    engine::{Engine, Message},
    error::Error,
    hosts::Heartbeat,
    kept::{
        bans::Exchange,
        rules::{Mark, Store},
    },
    key::Key,
};
use ratelimit_protocol::fleet::{About, Version};
use ratelimit_tests::{PATIENCE, Redis, Sandbox, VICTIM_IPV4, scaled};
use rustix::process::Signal;

pub(crate) const LIMIT: Limit = Limit { rate: 1_000.0, burst: 100.0 };
const DEADLINE: Duration = Duration::from_secs(2);

fn address(url: &str) -> Result<Address, Error> {
    Address::new(&[url.to_owned()], Kind::Single, None, None)
}

async fn connect(url: &str) -> Result<Engine, Error> {
    Engine::connect(&address(url)?, DEADLINE).await
}

pub(crate) async fn engine() -> Engine {
    connect(&Redis::url()).await.unwrap()
}

/// Reports, and returns all answers or the failure.
pub(crate) async fn report(engine: &Engine, messages: &[Message]) -> Result<Vec<Answer>, Error> {
    let (answers, failure) = engine.report(&Terms::default(), messages).await;
    assert_eq!(failure.is_none(), answers.iter().all(Option::is_some));
    failure.map_or_else(|| Ok(answers.into_iter().flatten().collect()), Err)
}

/// Connects and reports.
pub(crate) async fn try_at(url: &str, messages: &[Message]) -> Result<Vec<Answer>, Error> {
    report(&connect(url).await?, messages).await
}

pub(crate) fn message(source: &str, offered: f64, own: f64) -> Message {
    let report = Report { offered, admitted: offered.min(200.0), own, weight: 1.0, record: 0 };
    Message { key: Key::of(source, &LIMIT), limit: LIMIT, report }
}

/// Reports of a host: what it is offered, which part of that it admits, and whether it has told the record before.
type Step = (usize, f64, f64, bool);

#[test]
fn the_script_computes_the_shares_of_the_share_function() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    // Demand decays by much between two calls.
    let terms = Terms { period: 0.000_2, ..Terms::default() };
    let steps = prop::collection::vec((0..3usize, 0.0..1_000.0f64, 0.0..1.0f64, any::<bool>()), 1..60);
    let mut runner = TestRunner::new(Config { cases: 50, failure_persistence: None, ..Config::default() });
    let case = Cell::new(0);
    let outcome = runner.run(&(steps, 1.0..1e6f64, 1.0..1e4f64), |(steps, rate, burst): (Vec<Step>, f64, f64)| {
        case.set(case.get() + 1);
        let (limit, source) = (Limit { rate, burst }, format!("source {}", case.get()));
        Redis::at_the_peer(&sandbox, async || compare(&engine().await, &terms, limit, &source, &steps).await)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// Sends reports, and compares each answer with the record of the share function at the server's time.
async fn compare(
    engine: &Engine,
    terms: &Terms,
    limit: Limit,
    source: &str,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut record: Option<Record> = None;
    let mut demands = [Demand::default(); 3];
    for (host, offered, part, is_known) in steps.iter().copied() {
        let number = record.filter(|_| is_known).map_or(0, |record| record.number);
        let now = record.map_or(0.0, |record| record.demand.time);
        demands[host] = demands[host].after(offered, now, terms.memory());
        let report = Report {
            offered,
            admitted: offered * part,
            own: demands[host].packets,
            weight: 1.0 + host as f64,
            record: number,
        };
        let message = Message { key: Key::of(source, &limit), limit, report };
        let answers = engine.call(terms, &[message]).await.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let [answer] = answers.answers[..] else { return Err(TestCaseError::fail("no answer")) };
        let record = record.get_or_insert_with(|| Record::new(answer.record, &limit, terms, answers.time));
        let expected = record.take(&report, &limit, terms, answers.time);
        prop_assert_eq!(answer.record, expected.record);
        prop_assert_eq!(answer.share.is_some(), expected.share.is_some());
        if let (Some(share), Some(expected)) = (answer.share, expected.share) {
            prop_assert!((share - expected).abs() <= 1e-9, "{} instead of {}", share, expected);
        }
    }
    Ok(())
}

#[test]
fn hosts_share_a_limit_and_a_calm_source_needs_no_share() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    Redis::at_the_peer(&sandbox, async || {
        let engine = engine().await;
        let mut messages: Vec<_> = (0..1_000).map(|number| message(&format!("10.0.0.{number}"), 10.0, 10.0)).collect();
        messages.push(message("192.0.2.1", 3_000.0, 3_000.0));
        let terms = Terms::default();
        let first = engine.call(&terms, &messages).await.unwrap();
        let second = engine.call(&terms, &messages).await.unwrap();
        assert!(first.answers[..1_000].iter().chain(&second.answers[..1_000]).all(|answer| answer.share.is_none()));
        // The share depends on the time between the calls.
        let mut record = Record::new(first.answers[1_000].record, &LIMIT, &terms, first.time);
        // A busy machine lets demand decay.
        let is_soon = second.time - first.time < 0.1;
        for (answers, can_be_whole) in [(first, true), (second, !is_soon)] {
            let (share, report) = (answers.answers[1_000].share.unwrap(), messages[1_000].report);
            let expected = record.take(&report, &LIMIT, &terms, answers.time).share.unwrap();
            assert!((share - expected).abs() <= 1e-9, "{share} instead of {expected}");
            assert!(share < 1.0 || can_be_whole, "{share}");
        }
    });
}

#[test]
fn a_record_expires_when_it_means_nothing_any_more() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    Redis::at_the_peer(&sandbox, async || {
        report(&engine().await, &[message("192.0.2.1", 10.0, 10.0)]).await.unwrap();
        let client = redis::Client::open(Redis::url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let key = Key::of("192.0.2.1", &LIMIT);
        let left: i64 = redis::cmd("PTTL").arg(key.as_str()).query_async(&mut connection).await.unwrap();
        // Four half-lives of 0.6 s, and what the record owes.
        assert!((1_000..3_000).contains(&left), "{left}");
    });
}

#[test]
fn a_server_that_has_forgotten_the_script_or_all_records_answers_at_once() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    Redis::at_the_peer(&sandbox, async || {
        let engine = engine().await;
        let messages = [message("192.0.2.1", 3_000.0, 3_000.0)];
        let before = report(&engine, &messages).await.unwrap();
        let client = redis::Client::open(Redis::url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        for words in [&["SCRIPT", "FLUSH"][..], &["FLUSHALL"]] {
            redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut connection).await.unwrap();
            assert!(report(&engine, &messages).await.unwrap()[0].share.is_some());
        }
        assert_ne!(report(&engine, &messages).await.unwrap()[0].record, before[0].record);
    });
}

#[test]
fn nobody_waits_longer_than_the_deadline_for_a_silent_server() {
    let sandbox = Sandbox::new();
    let redis = Redis::start(&sandbox, &[]);
    Redis::at_the_peer(&sandbox, async || {
        let engine = engine().await;
        let messages = [message("192.0.2.1", 10.0, 10.0)];
        report(&engine, &messages).await.unwrap();
        redis.process.signal(Signal::STOP);
        for _ in 0..3 {
            let begin = Instant::now();
            assert!(report(&engine, &messages).await.is_err());
            assert!(begin.elapsed() < DEADLINE + scaled(Duration::from_millis(150)), "{:?}", begin.elapsed());
        }
        redis.process.signal(Signal::CONT);
        recovers(&engine, &messages).await;
    });
}

#[test]
fn a_server_that_was_killed_and_comes_back_empty_is_used_again() {
    let sandbox = Sandbox::new();
    let redis = Redis::start(&sandbox, &[]);
    Redis::at_the_peer(&sandbox, async || {
        let engine = engine().await;
        let messages = [message("192.0.2.1", 10.0, 10.0)];
        let before = report(&engine, &messages).await.unwrap();
        drop(redis);
        assert!(report(&engine, &messages).await.is_err());
        let _redis = Redis::start(&sandbox, &[]);
        let after = try_at(&Redis::url(), &messages).await.unwrap();
        assert_ne!(after[0].record, before[0].record);
    });
}

/// Reports until the server answers.
async fn recovers(engine: &Engine, messages: &[Message]) {
    let begin = Instant::now();
    while let Err(error) = report(engine, messages).await {
        assert!(begin.elapsed() < PATIENCE, "{error}");
        tokio::task::yield_now().await;
    }
}

#[test]
fn what_the_server_refuses_is_an_error_in_one_line() {
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &["--maxmemory", "1", "--requirepass", "secret"]);
    Redis::at_the_peer(&sandbox, async || {
        let messages = [message("192.0.2.1", 10.0, 10.0)];
        let with = |user: &str| format!("redis://{user}{VICTIM_IPV4}:6379");
        for (url, expected) in [
            (with(""), "it asks for a password"),
            (with(":wrong@"), "refuses the login"),
            (with(":secret@"), "OOM"),
            (format!("redis://{VICTIM_IPV4}:6380"), "refused"),
        ] {
            let error = try_at(&url, &messages).await.unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n') && !error.contains("secret"), "{error}");
        }
    });
    for url in ["", "http://192.0.2.1", "redis://", "192.0.2.1", "redis://192.0.2.1:port"] {
        let error = address(url).err();
        assert!(matches!(error, Some(Error::NoUrl | Error::Url(_))), "{url}: {error:?}");
    }
}

#[test]
fn a_user_with_the_rights_in_the_document_can_report() {
    let document = include_str!("../../../docs/fleet.md");
    let lines: Vec<_> = document.lines().filter(|line| line.starts_with("ACL SETUSER ")).collect();
    assert_eq!(lines.len(), 3);
    let sandbox = Sandbox::new();
    let _redis = Redis::start(&sandbox, &[]);
    Redis::at_the_peer(&sandbox, async || {
        let client = redis::Client::open(Redis::url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        for line in lines {
            let line = line.replace("PASSWORD", "secret");
            let words: Vec<_> = line.split(' ').collect();
            redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut connection).await.unwrap();
        }
        let owned = |text: &str| Some(text.to_owned());
        let address = Address::new(&[Redis::url()], Kind::Single, owned("ratelimit"), owned("secret")).unwrap();
        let engine = Engine::connect(&address, DEADLINE).await.unwrap();
        let heartbeat = Heartbeat::of("a".to_owned());
        assert_eq!(heartbeat.beat(&engine, &About::default()).await.unwrap().count, 1);
        assert!(report(&engine, &[message("192.0.2.1", 3_000.0, 3_000.0)]).await.unwrap()[0].share.is_some());
        assert_eq!(engine.evicts().await.unwrap(), None);
        heartbeat.leave(&engine).await.unwrap();
        let denied = ("192.0.2.1".parse().unwrap(), Duration::from_secs(60));
        let mut exchange = Exchange::of("a#1".to_owned());
        assert_eq!(exchange.exchange(&engine, &[denied]).await.unwrap().told.len(), 1);
        let (store, version) = (Store::default(), Version { version: 1, text: "# none\n".to_owned() });
        assert!(store.write(&engine, &Mark::default(), &version, ["root", "test"]).await.unwrap());
        // Of two hosts that write version 1 at once, only one has.
        let other = Version { version: 1, text: "# other\n".to_owned() };
        assert!(!store.write(&engine, &Mark::default(), &other, ["root", "test"]).await.unwrap());
        let (mark, read) = store.read(&engine, None).await.unwrap().unwrap();
        assert_eq!((mark.version, read), (1, version));
        assert_eq!(store.read(&engine, Some(&mark)).await.unwrap(), None);
        assert_eq!(store.log(&engine).await.unwrap()[0].why, "test");
        assert_eq!(store.text(&engine, 1).await.unwrap().as_deref(), Some("# none\n"));
        let mut refused = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd("AUTH").arg(&["ratelimit", "secret"]).exec_async(&mut refused).await.unwrap();
        for words in [&["GET", "other"][..], &["FLUSHALL"], &["CONFIG", "GET", "maxmemory"]] {
            let outcome = redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut refused).await;
            assert!(outcome.unwrap_err().to_string().contains("permission"), "{words:?}");
        }
    });
}
