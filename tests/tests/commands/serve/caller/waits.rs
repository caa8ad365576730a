//! The client in the library, which waits until a request is allowed.

use std::time::{Duration, Instant};

use ratelimit_tests::Sandbox;

use super::{PATIENT, block_on, caller, decisions, question};
use crate::serve::Server;

const TWO: &str = "[[check]]\nname = \"two\"\nkey = \"user\"\nlimits = \"2/s\"\n";
const QUEUE: &str = "[[check]]\nname = \"queue\"\nkey = \"user\"\nlimits = \"5/s\"\nalgorithm = \"queue\"\n";
const LONG: Duration = Duration::from_secs(120);

#[test]
fn a_refused_request_waits_and_then_passes() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, TWO);
    let caller = caller(&[&server], PATIENT);
    block_on(async {
        let begin = Instant::now();
        assert!(caller.check(&question().with_cost(2)).await.is_allowed);
        let answer = caller.wait(&question().with_cost(2), LONG).await;
        assert_eq!((answer.undecided, answer.is_allowed), (None, true));
        // Both come back after a second. The limiter is precise within one percent.
        assert!(begin.elapsed() >= Duration::from_millis(990), "{:?}", begin.elapsed());
    });
    assert!(decisions(&server, "refused") >= 1);
    drop(caller);
    server.end();
}

#[test]
fn a_request_that_costs_too_much_or_would_wait_too_long_is_refused_at_once() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &TWO.replace("2/s", "2/d"));
    let caller = caller(&[&server], PATIENT);
    block_on(async {
        let costly = caller.wait(&question().with_cost(3), LONG).await;
        assert_eq!((costly.undecided, costly.is_allowed, costly.retry_after), (None, false, None));
        assert!(caller.wait(&question().with_cost(2), LONG).await.is_allowed);
        let refused = caller.wait(&question(), LONG).await;
        assert_eq!((refused.undecided, refused.is_allowed), (None, false));
        assert!(refused.retry_after.unwrap() > LONG);
    });
    // Each of them has been asked once.
    assert_eq!((decisions(&server, "refused"), decisions(&server, "allowed")), (2, 1));
    drop(caller);
    server.end();
}

#[test]
fn a_request_waits_for_its_place_in_a_queue_if_the_time_allows_it() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, QUEUE);
    let caller = caller(&[&server], PATIENT);
    block_on(async {
        let begin = Instant::now();
        for _ in 0..3 {
            let answer = caller.wait(&question(), LONG).await;
            assert_eq!((answer.undecided, answer.is_allowed, answer.after), (None, true, Duration::ZERO));
        }
        assert!(begin.elapsed() >= Duration::from_millis(390), "{:?}", begin.elapsed());
    });
    drop(caller);
    server.end();
}

#[test]
fn a_request_whose_place_in_a_queue_is_too_far_behind_is_refused() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &QUEUE.replace("5/s", "5/h"));
    let caller = caller(&[&server], PATIENT);
    block_on(async {
        assert!(caller.check(&question().with_cost(4)).await.is_allowed);
        let refused = caller.wait(&question(), LONG).await;
        assert_eq!((refused.undecided, refused.is_allowed, refused.after), (None, false, Duration::ZERO));
        assert!(refused.retry_after.unwrap() > LONG);
    });
    drop(caller);
    server.end();
}
