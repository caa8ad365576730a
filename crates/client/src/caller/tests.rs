//! Addresses, back-off, and answers of servers.

use std::{
    env, fs, process,
    time::{Duration, Instant},
};

use proptest::prelude::*;

#[cfg(feature = "tls")]
use super::Authority;
use super::{
    Address, AddressError, Answer, Answers, Caller, CallerError, Options, Question, Server, Token, TokenError,
    Undecided,
    backoff::{Backoff, Waiting},
    connector::tests::full_socket,
};

const SECOND: Duration = Duration::from_secs(1);

fn is_send_and_sync<T: Send + Sync>(_: T) {}

#[test]
fn addresses_are_read_and_written_and_others_get_one_clear_line() {
    for text in [
        "unix:/run/check.sock",
        "http://127.0.0.1:8080",
        "http://[::1]:80",
        "http://limiter.internal:8080",
        "https://limits.example:8443",
        "https://[2001:db8::1]:443",
    ] {
        assert_eq!(text.parse::<Address>().map(|address| address.to_string()), Ok(text.to_owned()));
    }
    for (text, whole) in
        [("https://limits.example", "https://limits.example:443"), ("http://[::1]/", "http://[::1]:80")]
    {
        assert_eq!(text.parse::<Address>().map(|address| address.to_string()), Ok(whole.to_owned()));
    }
    for text in [
        "",
        "/run/check.sock",
        "127.0.0.1:8080",
        "ftp://127.0.0.1:8080",
        "http://127.0.0.1:0",
        "http://127.0.0.1:",
        "http://127.0.0.1:65536",
        "http://127.0.0.1:80/v1",
        "http://user@127.0.0.1:80",
        "http://:80",
        "http://a:80/?b",
    ] {
        assert_eq!(text.parse::<Address>(), Err(AddressError::Form(text.to_owned())));
    }
    // Without encryption, no server with a certificate is asked at all.
    let nameless = "https://-:8080";
    assert_eq!(nameless.parse::<Address>().is_err(), cfg!(feature = "tls"));
    for text in ["unix:", "unix:run/check.sock", &format!("unix:/{}", "x".repeat(107))] {
        assert_eq!(text.parse::<Address>(), Err(AddressError::Path(text.to_owned())));
    }
}

#[test]
fn a_caller_has_1_to_64_servers_and_serves_all_threads() {
    let server = Server::new("unix:/run/check.sock".parse().unwrap());
    for count in [0, 65] {
        let refused = Caller::new(vec![server.clone(); count], Options::default());
        assert_eq!(refused.unwrap_err(), CallerError::Servers(count));
    }
    is_send_and_sync(Caller::new(vec![server; 64], Options::default()).unwrap());
}

#[tokio::test]
async fn a_full_queue_is_waited_for_only_if_no_other_server_is_left() {
    let path = env::temp_dir().join(format!("ratelimit-full-{}", process::id()));
    let _full = full_socket(&path).await;
    let server = Server::new(format!("unix:{}", path.display()).parse().unwrap());
    let ask = async |count, time| {
        let options = Options { try_time: time, total_time: time, ..Options::default() };
        let caller = Caller::new(vec![server.clone(); count], options).unwrap();
        caller.check(&Question::new([("user", "17")])).await.undecided.unwrap()
    };
    let several = ask(2, 60 * SECOND).await;
    assert!(matches!(several, Undecided::Connect(_)), "{several:?}");
    let begin = Instant::now();
    let one = ask(1, SECOND / 10).await;
    // Whichever of both ends first.
    assert!(matches!(one, Undecided::Late { .. } | Undecided::Connect(_)), "{one:?}");
    assert!(begin.elapsed() >= SECOND / 10, "{one:?}");
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_token_goes_over_no_network_without_encryption_and_is_not_printed() {
    let made = |address: &str| {
        let server = Server::new(address.parse().unwrap()).with_token("secret".parse().unwrap());
        Caller::new([server], Options::default()).map(drop)
    };
    for address in ["unix:/run/check.sock", "http://localhost:8080", "http://127.0.0.2:8080", "http://[::1]:8080"] {
        assert_eq!(made(address), Ok(()), "{address}");
    }
    for address in ["http://192.0.2.1:8080", "http://localhost.example:8080"] {
        assert_eq!(made(address), Err(CallerError::Exposed(address.to_owned())));
    }
    let token: Token = " secret\n".parse().unwrap();
    assert_eq!(token.header(), "Bearer secret");
    assert!(!format!("{token:?}").contains("secret"));
    for text in ["", "two words", "é", "a\nb"] {
        assert_eq!(text.parse::<Token>(), Err(TokenError), "{text}");
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn without_encryption_an_encrypted_server_is_refused() {
    let server = Server::new("https://limits.example:8443".parse().unwrap());
    let refused = Caller::new([server], Options::default()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("is built without `tls`"), "{refused}");
}

#[cfg(feature = "tls")]
#[test]
fn an_authority_is_a_certificate_and_only_for_encrypted_connections() {
    assert!(Authority::of_pem(b"nonsense").is_err());
    let pem = rcgen::generate_simple_self_signed(["authority".to_owned()]).unwrap().cert.pem();
    let made = |address: &str| {
        let server = Server::new(address.parse().unwrap()).with_authority(Authority::of_pem(pem.as_bytes()).unwrap());
        Caller::new([server], Options::default()).map(drop)
    };
    assert_eq!(made("https://limits.example:8443"), Ok(()));
    let address = "http://127.0.0.1:8080";
    assert_eq!(made(address), Err(CallerError::NotEncrypted(address.to_owned())));
}

#[test]
fn the_jitter_doubles_up_to_its_cap() {
    let mut backoff = Backoff::new(SECOND, 5 * SECOND);
    let times: Vec<_> = (0..5).map(|_| backoff.next(SECOND, u64::MAX).as_secs()).collect();
    assert_eq!(times, [2, 3, 5, 6, 6]);
}

proptest! {
    #[test]
    fn the_backoff_is_never_below_the_time_of_the_server_and_its_jitter_never_above_the_cap(
        base: u32, cap: u32, retry_after: u64, random: Vec<u64>,
    ) {
        let [base, cap] = [base, cap].map(|time| Duration::from_millis(time.into()));
        let retry_after = Duration::from_millis(retry_after);
        let mut backoff = Backoff::new(base, cap);
        for (number, random) in random.into_iter().enumerate() {
            let time = backoff.next(retry_after, random);
            let most = base.saturating_mul(1 << number.min(31)).min(cap);
            prop_assert!(time >= retry_after && time <= retry_after.saturating_add(most), "{time:?} {most:?}");
        }
    }

    #[test]
    fn a_question_after_a_refusal_has_its_time_before_the_time_limit(
        limit: u32, elapsed: u32, question: u32, retry_after: Option<u64>, random: u64,
    ) {
        let [limit, elapsed, question] = [limit, elapsed, question].map(|time| Duration::from_millis(time.into()));
        let retry_after = retry_after.map(Duration::from_millis);
        let backoff = Backoff::new(SECOND, 10 * SECOND);
        match Waiting::new(backoff, limit, question).next(elapsed, retry_after, random) {
            Some(time) => prop_assert!(time >= retry_after.unwrap() && elapsed + time + question <= limit),
            // There is a reason: the request costs too much, or the time is too short.
            None => prop_assert!(
                retry_after.is_none_or(|time| elapsed.saturating_add(time).saturating_add(question) > limit)
            ),
        }
    }
}

#[test]
fn an_answer_has_everything_that_the_server_says() {
    let body = br#"{"allowed": false, "rule": "create-url", "limit": "3/m", "remaining": 0, "reset_ms": 60000,
        "retry_after_ms": 1500, "shadow": "other", "new": [1]}"#;
    let answer = Answer::read(false, body).unwrap();
    let expected = Answer {
        is_allowed: false,
        rule: Some("create-url".to_owned()),
        limit: Some("3/m".parse().unwrap()),
        remaining: Some(0),
        reset: Some(60 * SECOND),
        retry_after: Some(Duration::from_millis(1_500)),
        after: Duration::ZERO,
        above_limit: false,
        shadow: Some("other".to_owned()),
        undecided: None,
    };
    assert_eq!((answer.is_decided(), answer), (true, expected));
    let answers =
        Answers::read(true, br#"{"allowed": true, "decisions": [{"allowed": true, "after_ms": 7}]}"#).unwrap();
    assert_eq!(answers.answers[0].after, Duration::from_millis(7));
}

#[test]
fn an_answer_that_contradicts_itself_decides_nothing() {
    assert_eq!(Answer::read(true, br#"{"allowed": false}"#), None);
    assert_eq!(Answer::read(false, br#"{"allowed": true}"#), None);
    assert_eq!(Answer::read(true, br#"{"allowed": true, "limit": "often"}"#), None);
    assert_eq!(Answer::read(true, b"<html>"), None);
    assert_eq!(Answers::read(true, br#"{"allowed": true, "decisions": [{"allowed": true, "limit": "-"}]}"#), None);
}
