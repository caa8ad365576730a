//! Engines that lie about rules and usage.

use std::time::Duration;

use ratelimit_fleet::{
    address::{Address, Kind},
    engine::Engine,
    error::Error,
    kept::{
        limits::compare,
        rules::{Mark, REQUESTS, Store},
        usage::{self, Batch, Bounds, Row},
    },
};
use ratelimit_protocol::fleet::Version;
use ratelimit_server::usage::{Order, SharedReader};
use tokio::net::TcpListener;

use crate::hostile::lie;

const SECOND: Duration = Duration::from_secs(1);

/// Returns what the engine makes of each question: rules, their log, a change, hours, rows, a batch, and a comparison.
async fn ask(engine: &Engine) -> [Result<(), Error>; 7] {
    let (rules, rows) = (Store::of(&REQUESTS), usage::Store::default());
    let batch = Batch { part: 1, number: 1, rows: vec![Row { hour: 1, client: "a []".to_owned(), numbers: [1; 4] }] };
    let bounds = Bounds { hours: 24, rows: 1_000, rows_of_hour: 100 };
    [
        rules.read(engine, None).await.map(drop),
        rules.texts(engine, "", 3).await.map(drop),
        rules.write(engine, &Mark::default(), &Version::default(), ["who", "why"]).await.map(drop),
        rows.hours(engine, 1).await.map(drop),
        rows.rows(engine, 1, (1, 0), "*").await.map(drop),
        rows.add(engine, "server", &batch, &bounds).await.map(drop),
        compare(engine, "server", SECOND, &[("api", String::new())]).await.map(drop),
    ]
}

/// Asks an engine that has this answer to everything.
fn with<T>(answer: &str, ask: impl AsyncFnOnce(&Engine) -> T) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        tokio::spawn(lie(listener, answer.to_owned()));
        let address = Address::new(&[url], Kind::Single, None, None).unwrap();
        Ok(ask(&Engine::connect(&address, SECOND).await?).await)
    })
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn list(texts: &[&str]) -> String {
    format!("*{}\r\n{}", texts.len(), texts.iter().map(|text| bulk(text)).collect::<String>())
}

#[test]
fn lies_about_rules_and_usage_are_errors_in_one_short_line() {
    let (long, many) = ("x".repeat(20 << 20), vec!["x"; 150_001]);
    for answer in [
        ":5\r\n".to_owned(),
        "-\u{1b}[2J\u{7}error\r\n".to_owned(),
        list(&["x"]),
        list(&["1e99", "", "x", "y"]),
        list(&["99999999999999999999", "\u{1b}", "x", "y"]),
        list(&["x", &long, "y", "z"]),
        list(&many),
        "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n".to_owned(),
    ] {
        let outcomes = with(&answer, ask).map_or_else(|error| vec![Err(error)], Vec::from);
        let beginning: String = answer.chars().take(40).collect();
        let errors: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
        // The log of changes is a list of any texts.
        assert!(errors.len() + 1 >= outcomes.len(), "{beginning:?}: {errors:?}");
        for error in errors.iter().map(ToString::to_string) {
            assert!(!error.contains(char::is_control) && error.len() < 200, "{beginning:?}: {error:?}");
        }
    }
}

#[test]
fn numbers_of_usage_that_no_engine_can_have_are_errors() {
    let ask = async |engine: &Engine| {
        let batch =
            Batch { part: 1, number: 1, rows: vec![Row { hour: 1, client: "a []".to_owned(), numbers: [1, 9, 1, 9] }] };
        let bounds = Bounds { hours: 24, rows: 1_000, rows_of_hour: 100 };
        let added = usage::Store::default().add(engine, "server", &batch, &bounds).await.map(drop);
        let read = SharedReader::of(engine).top(1, None, 0, Order::Cost).await.map(|read| read.left_out);
        (added.map_err(|error| error.to_string()), read.map_err(|error| error.to_string()))
    };
    // The hours 7, 8 and 9, or a cursor and a row.
    let (added, read) = with(&list(&["7", "8", "9"]), ask).unwrap();
    assert_eq!(added.unwrap_err(), "its answer cannot be used: it has lost more requests than it got");
    assert_eq!(read.unwrap_err(), "its answer cannot be used: a cursor stands still");
    // An hour after all times, which is no cursor that leads on.
    let (added, read) = with(&list(&["18446744073709551615"]), ask).unwrap();
    assert!(added.is_err());
    assert_eq!(read, Ok(0));
    let (added, read) = with(&list(&["0", "-1", "1e9"]), ask).unwrap();
    assert_eq!(added, Ok(()));
    assert_eq!(read.unwrap_err(), "its answer cannot be used: a value is not a number");
    let (_, read) = with(&list(&["0"]), ask).unwrap();
    assert_eq!(read, Ok(0));
}
