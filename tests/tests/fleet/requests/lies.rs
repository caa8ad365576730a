//! Engines that lie about rules and usage.

use std::time::Duration;

use ratelimit::fleet::{
    address::{Address, Kind},
    engine::Engine,
    error::Error,
    kept::{
        limits::compare,
        rules::{Mark, REQUESTS, Store, Version},
        usage::{self, Batch, Bounds, Row},
    },
};
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
        rules.texts(engine, 3).await.map(drop),
        rules.write(engine, &Mark::default(), &Version::default(), ["who", "why"]).await.map(drop),
        rows.hours(engine, 1).await.map(drop),
        rows.rows(engine, 1, (1, 0), "*").await.map(drop),
        rows.add(engine, "server", &batch, &bounds).await.map(drop),
        compare(engine, "server", SECOND, &[("api", String::new())]).await.map(drop),
    ]
}

#[test]
fn lies_about_rules_and_usage_are_errors_in_one_short_line() {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let list =
        |texts: &[&str]| format!("*{}\r\n{}", texts.len(), texts.iter().map(|text| bulk(text)).collect::<String>());
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcomes = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("redis://{}", listener.local_addr().unwrap());
            tokio::spawn(lie(listener, answer.clone()));
            let address = Address::new(&[url], Kind::Single, None, None).unwrap();
            match Engine::connect(&address, SECOND).await {
                Ok(engine) => ask(&engine).await.into_iter().collect(),
                Err(error) => vec![Err(error)],
            }
        });
        let beginning: String = answer.chars().take(40).collect();
        let errors: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
        // The log of changes is a list of any texts.
        assert!(errors.len() + 1 >= outcomes.len(), "{beginning:?}: {errors:?}");
        for error in errors.iter().map(ToString::to_string) {
            assert!(!error.contains(char::is_control) && error.len() < 200, "{beginning:?}: {error:?}");
        }
    }
}
