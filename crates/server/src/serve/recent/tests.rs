//! Requests of the past, and replays of them.

use super::*;
use crate::config::written;

const SECOND: u64 = 1_000_000_000;

fn of_user(user: usize) -> BTreeMap<String, String> {
    BTreeMap::from([("user".to_owned(), user.to_string()), ("operation".to_owned(), "a".to_owned())])
}

fn replayed(recent: &Recent, keys: &str, now: u64) -> Replayed {
    let rule = written::read("r", &toml::from_str(keys).unwrap(), &["user".to_owned(), "operation".to_owned()]);
    replay(&rule.unwrap(), &recent.sample(now))
}

#[test]
fn a_replay_counts_the_clients_that_a_rule_would_have_refused() {
    let recent = Recent::new(0);
    // Twelve clients ask once per second for a minute, and 28 others once in 20 seconds.
    for second in 0..60 {
        (0..12).for_each(|user| recent.note(&of_user(user), 1, second * SECOND));
        if second % 20 == 0 {
            (12..40).for_each(|user| recent.note(&of_user(user), 1, second * SECOND));
        }
    }
    recent.note(&of_user(50), 0, 59 * SECOND);
    let window = "algorithm = \"sliding-log\"\nkey = \"user\"\n";
    let found = replayed(&recent, &format!("{window}limits = \"10/m\""), 60 * SECOND);
    assert_eq!((found.clients, found.hit, found.requests, found.refused), (40, 12, 12 * 60 + 28 * 3, 12 * 50));
    assert_eq!((found.worst.len(), found.worst[0].requests, found.worst[0].refused), (10, 60, 50));
    let found = replayed(&recent, &format!("{window}limits = \"2/m\""), 60 * SECOND);
    assert_eq!((found.clients, found.hit), (40, 40));
    let found = replayed(&recent, &format!("{window}limits = \"2/m\"\nmatch = {{ operation = \"b\" }}"), 60 * SECOND);
    assert_eq!((found.clients, found.hit), (0, 0));
}

#[test]
fn a_replay_tells_no_key() {
    let recent = Recent::new(0);
    let request = ["key", "user"].map(|name| (name.to_owned(), "c2VjcmV0".to_owned()));
    recent.note(&BTreeMap::from(request), 1, SECOND);
    let rule = written::read("r", &toml::from_str("key = [\"key\"]\nlimits = \"1/m\"").unwrap(), &["key".to_owned()]);
    let name = &replay(&rule.unwrap(), &recent.sample(SECOND)).worst[0].name;
    assert!(name.starts_with("key=") && !name.contains("c2VjcmV0"), "{name}");
}

#[test]
fn requests_stay_for_an_hour() {
    let recent = Recent::new(0);
    recent.note(&of_user(1), 1, 0);
    recent.note(&of_user(2), 1, 30 * 60 * SECOND);
    assert_eq!(recent.sample(LIFE + SECOND).requests.len(), 1);
    assert_eq!(recent.sample(LIFE + SECOND).span, Duration::from_secs(3_600));
    assert_eq!(recent.sample(2 * LIFE).requests.len(), 0);
}

#[test]
fn a_flood_of_clients_leaves_whole_histories_of_some_of_them_within_the_bounds() {
    let recent = Recent::new(0);
    for round in 0..4 {
        (0..40_000).for_each(|user| recent.note(&of_user(user), 1, round * SECOND));
    }
    let sample = recent.sample(4 * SECOND);
    assert!(sample.one_of >= 2 && sample.requests.len() <= MOST, "{} {}", sample.one_of, sample.requests.len());
    let bytes: usize = sample.requests.iter().map(|request| request.bytes()).sum();
    assert!(bytes <= BYTES && bytes == recent.bytes.load(Relaxed));
    assert_eq!(sample.requests.len(), recent.requests.load(Relaxed));
    let found = replayed(&recent, "key = \"user\"\nlimits = \"1/h\"", 4 * SECOND);
    assert_eq!(found.requests, 4 * found.clients as u64);
    // One of four is expected, with a standard deviation below 100.
    assert!(found.clients > 9_400, "{}", found.clients);
}

#[test]
fn a_client_with_many_requests_takes_no_history_from_others() {
    let recent = Recent::new(0);
    for second in 0..100 {
        (0..40).for_each(|user| recent.note(&of_user(user), 1, second * SECOND));
        (0..2_000).for_each(|_| recent.note(&of_user(99), 1, second * SECOND));
    }
    let found = replayed(&recent, "key = \"user\"\nlimits = \"100/h\"\nalgorithm = \"sliding-log\"", 100 * SECOND);
    let requests = (OF_CLIENT + 40 * 100) as u64;
    assert_eq!((found.clients, found.hit, found.requests), (41, 1, requests));
    assert_eq!((&*found.worst[0].name, found.worst[0].refused), ("user=99", OF_CLIENT as u64 - 100));
    let sample = recent.sample(100 * SECOND);
    assert_eq!((sample.one_of, sample.cut), (1, 1));
    // An hour later, it has no more requests than others.
    recent.note(&of_user(99), 1, LIFE + 90 * SECOND);
    let sample = recent.sample(LIFE + 100 * SECOND);
    assert_eq!((sample.requests.len(), sample.cut), (1, 0));
    assert_eq!(recent.requests.load(Relaxed), 1);
}

#[test]
fn all_clients_are_noted_again_after_a_flood_without_a_request() {
    let recent = Recent::new(0);
    (0..200_000).for_each(|user| recent.note(&of_user(user), 1, SECOND));
    let sample = recent.sample(2 * SECOND);
    assert!(sample.one_of >= 4 && !sample.requests.is_empty(), "{}", sample.one_of);
    assert_eq!(sample.span, Duration::from_secs(2));
    let later = LIFE + 2 * SECOND;
    recent.tidy(later);
    assert_eq!(recent.mask.load(Relaxed), 0);
    (0..100).for_each(|user| recent.note(&of_user(user), 1, later + SECOND));
    let sample = recent.sample(later + 10 * SECOND);
    assert_eq!((sample.one_of, sample.requests.len(), sample.span), (1, 100, Duration::from_secs(10)));
}

#[test]
fn a_sample_has_only_the_time_that_it_names() {
    let recent = Recent::new(0);
    (0..100_000).for_each(|user| recent.note(&of_user(user), 1, SECOND));
    // Some of the clients ask again before all clients are noted again.
    (0..1_000).for_each(|user| recent.note(&of_user(user), 1, LIFE / 2));
    let later = LIFE + 2 * SECOND;
    recent.tidy(later);
    assert!(recent.requests.load(Relaxed) > 0);
    recent.note(&of_user(1), 1, later + SECOND);
    let sample = recent.sample(later + 2 * SECOND);
    assert_eq!((sample.one_of, sample.requests.len(), sample.span), (1, 1, Duration::from_secs(2)));
}
