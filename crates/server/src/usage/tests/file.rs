//! Totals by the hour, and what a file forgets.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _};

use proptest::prelude::*;

use super::*;

#[test]
fn an_hour_adds_up_over_many_writes_and_a_restart() {
    let stage = Stage::new(5);
    for _ in 0..2 {
        let mut writer = stage.writer();
        for minute in 0..3 {
            stage.ask("17", 2, NOON + minute * 60);
            writer.write(NOON).unwrap();
        }
        stage.ask("18", 1, NOON + HOUR);
        stage.ask("17", 1, NOON + HOUR);
        writer.write(NOON).unwrap();
    }
    assert_eq!(stage.of("17", Step::Hour), [(NOON, [2, 4, 4]), (NOON + HOUR, [1, 1, 1])]);
    assert_eq!(stage.of("17", Step::Day), [(NOON, [3, 5, 5])]);
    assert_eq!(stage.of("1", Step::Hour), []);
    let path = stage.settings().path;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    let reader = Reader::open(&path).unwrap();
    let top = |order| -> Vec<_> {
        let found = reader.top(10, Some("create"), NOON, order).unwrap();
        found.into_iter().map(|found| (text(&found.client), numbers(found.totals), found.totals.last)).collect()
    };
    let (first, second) =
        (("user=17".to_owned(), [3, 5, 5], NOON + HOUR), ("user=18".to_owned(), [2, 2, 0], NOON + HOUR));
    assert_eq!(top(Order::Refused), [first.clone(), second.clone()]);
    assert_eq!(top(Order::Admitted), [first.clone(), second]);
    assert_eq!(reader.top(1, None, NOON, Order::Cost).unwrap().len(), 1);
    assert_eq!(reader.top(1, Some("other"), NOON, Order::Cost).unwrap(), []);
    assert_eq!(reader.top(1, None, NOON + 2 * HOUR, Order::Cost).unwrap(), []);
    let attributes = |rule| reader.attributes(rule).unwrap().into_iter().collect::<Vec<_>>();
    assert_eq!(attributes(None), ["user"]);
    assert_eq!((attributes(Some("create")), attributes(Some("other"))), (attributes(None), vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_sum_of_all_hours_is_what_was_recorded(
        requests in prop::collection::vec((0..4u8, 0..4u32, 0..50_000u64, prop::bool::weighted(0.1)), 1..80),
    ) {
        let stage = Stage::new(60);
        let mut writer = stage.writer();
        let mut expected: BTreeMap<(String, u64), [u64; 3]> = BTreeMap::new();
        for (user, cost, second, is_written) in requests {
            let (user, now) = (user.to_string(), NOON + second);
            let [admitted, spent, refused] = expected.entry((user.clone(), now / HOUR * HOUR)).or_default();
            match stage.ask(&user, cost, now) {
                _ if cost == 0 => {}
                true => (*admitted, *spent) = (*admitted + 1, *spent + u64::from(cost)),
                false => *refused += 1,
            }
            if is_written {
                writer.write(NOON).unwrap();
            }
        }
        writer.write(NOON).unwrap();
        expected.retain(|_, numbers| *numbers != [0; 3]);
        let found = (0..4u8).flat_map(|user| {
            let user = user.to_string();
            stage.of(&user, Step::Hour).into_iter().map(move |(start, numbers)| ((user.clone(), start), numbers))
        });
        prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
        prop_assert_eq!(stage.recorder.lost(), 0);
    }
}

/// Returns the rows and clients of the file.
fn size(stage: &Stage) -> (u64, u64) {
    let connection = rusqlite::Connection::open(stage.settings().path).unwrap();
    let count = |table: &str| {
        let query = format!("SELECT count(*) FROM {table}");
        connection.query_row(&query, [], |row| row.get::<_, i64>(0)).unwrap() as u64
    };
    (count("usage"), count("client"))
}

#[test]
fn hours_end_after_the_days_of_the_file_and_take_their_clients_along() {
    let stage = Stage::new(100);
    let mut writer = Writer::new(Arc::clone(&stage.recorder), UsageFile { days: 1, ..stage.settings() });
    stage.ask("17", 1, NOON);
    stage.ask("18", 1, NOON + HOUR);
    writer.write(NOON + 24 * HOUR).unwrap();
    assert_eq!(size(&stage), (2, 2));
    // Nothing new must come for this.
    writer.write(NOON + 25 * HOUR).unwrap();
    assert_eq!((size(&stage), stage.of("18", Step::Hour).len()), ((1, 1), 1));
    drop(writer);
    let bytes = fs::read(stage.settings().path).unwrap();
    let has = |name: &str| bytes.windows(name.len()).any(|part| part == name.as_bytes());
    assert!(!has("[[\"user\",\"17\"]]") && has("[[\"user\",\"18\"]]"), "the file still has the name");
}

#[test]
fn a_clock_that_is_years_ahead_for_a_moment_costs_the_oldest_hour() {
    let stage = Stage::new(100);
    let mut writer = stage.writer();
    for hour in 0..4 {
        stage.ask(&hour.to_string(), 1, NOON + hour * HOUR);
    }
    writer.write(NOON + 4 * HOUR).unwrap();
    for left in [3, 2] {
        writer.write(NOON + 100_000 * HOUR).unwrap();
        assert_eq!(size(&stage), (left, left));
    }
    writer.write(NOON + 4 * HOUR).unwrap();
    assert_eq!(size(&stage), (2, 2));
    // A server that was off for long goes on until everything is deleted that is too old.
    for _ in 0..3 {
        writer.write(NOON + 100_000 * HOUR).unwrap();
    }
    assert_eq!(size(&stage), (0, 0));
}

#[test]
fn a_full_file_forgets_its_oldest_hours_and_one_hour_takes_a_tenth_of_it() {
    let stage = Stage::new(100);
    let mut writer = Writer::new(Arc::clone(&stage.recorder), UsageFile { rows: 1_000, ..stage.settings() });
    for hour in 0..12 {
        for user in 0..150 {
            stage.ask(&format!("{hour}-{user}"), 1, NOON + hour * HOUR);
        }
        writer.write(NOON).unwrap();
        assert_eq!(stage.recorder.lost(), 50 * (hour + 1));
        let (rows, clients) = size(&stage);
        assert!(rows == clients && (900..=1_000).contains(&rows) == (hour >= 8), "{rows} {clients}");
    }
    let path = stage.settings().path;
    let starts =
        |hour: u64| Reader::open(&path).unwrap().top(200, None, NOON + hour * HOUR, Order::Cost).unwrap().len();
    assert_eq!((starts(11), starts(10), starts(0)), (100, 200, 200));
    // What the hour knows goes on counting.
    let known = Reader::open(&path).unwrap().top(1, None, NOON + 11 * HOUR, Order::Cost).unwrap().remove(0).client;
    let user = &known[0].1;
    stage.ask(user, 1, NOON + 11 * HOUR);
    writer.write(NOON).unwrap();
    assert_eq!((stage.of(user, Step::Hour)[0].1, stage.recorder.lost()), ([2, 2, 0], 600));
}

#[test]
fn memory_is_bounded_whatever_clients_come_and_known_ones_still_count() {
    let stage = Stage::new(100);
    for user in 0..MOST + 1_000 {
        stage.ask(&user.to_string(), 1, NOON);
    }
    assert_eq!(stage.recorder.lost(), 1_000);
    stage.ask("0", 1, NOON);
    assert_eq!(stage.recorder.lost(), 1_000);
    stage.writer().write(NOON).unwrap();
    assert_eq!((size(&stage).0, stage.of("0", Step::Hour)), (MOST as u64, vec![(NOON, [2, 2, 0])]));
    // There is room again.
    stage.ask("new", 1, NOON);
    assert_eq!(stage.recorder.lost(), 1_000);
}

#[test]
fn threads_lose_nothing_while_the_file_is_written() {
    let stage = Stage::new(1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5_000).for_each(|number| assert!(stage.ask(&(number % 50).to_string(), 1, NOON))));
        }
        let mut writer = stage.writer();
        for _ in 0..20 {
            writer.write(NOON).unwrap();
        }
    });
    stage.writer().write(NOON).unwrap();
    let sum: u64 = (0..50).map(|user| stage.of(&user.to_string(), Step::Day)[0].1[0]).sum();
    assert_eq!(sum, 20_000);
}

#[test]
fn clients_with_the_longest_names_do_not_make_the_file_larger_than_its_bound() {
    fill_with_longest_names(true);
}

#[test]
fn many_hours_that_had_to_wait_do_not_make_the_file_larger_than_its_bound() {
    fill_with_longest_names(false);
}

/// Writes hours with as much as they may have, each at its end, or all at once.
fn fill_with_longest_names(is_each_at_its_end: bool) {
    let stage = Stage::new(100);
    let names: Vec<_> = (0..32).map(|number| format!("attribute-{number:02}")).collect();
    let limit = Limit::new(Rate { amount: 100, period: HOUR * 1_000_000_000 }, None, Algorithm::FixedWindow).unwrap();
    let limiter = Limiter::new([Rule::new("create", [limit]).unwrap().by(names.clone())], [1, 2]);
    let settings = UsageFile { rows: 1_000, ..stage.settings() };
    let mut writer = Writer::new(Arc::clone(&stage.recorder), settings.clone());
    for hour in 0..15 {
        for client in 0..110 {
            let value = |number| format!("{hour}-{client}-{number}-{}", "x".repeat(110));
            let values: Vec<_> = (0..32).map(value).collect();
            let attributes: Vec<_> = names.iter().map(String::as_str).zip(values.iter().map(String::as_str)).collect();
            let record = &mut stage.recorder.at(NOON + hour * HOUR);
            limiter.check_and_record(&attributes[..], 1, (NOON + hour * HOUR) * 1_000_000_000, record);
        }
        if !is_each_at_its_end && hour < 14 {
            continue;
        }
        writer.write(NOON + hour * HOUR).unwrap();
        let bytes = fs::metadata(&settings.path).unwrap().len();
        assert!(bytes <= 512 * 1_000, "{bytes} bytes after {hour} hours");
    }
    let (rows, clients) = size(&stage);
    assert!(rows == clients && rows >= 200, "{rows} {clients}");
    drop(writer);
    assert!(fs::metadata(&settings.path).unwrap().len() <= 512 * 1_000);
}
