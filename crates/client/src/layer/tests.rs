//! The layer around a service that counts its calls. The clock is that of the test.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{Response, StatusCode};
use ratelimit_limiter::{Algorithm, Decision, Limit, Limiter, Rate, Rule};
use tower_layer::Layer as _;
use tower_service::Service;

use super::{Current, RateLimit, too_many_requests};

const SECOND: u64 = 1_000_000_000;

/// A service that answers with its number of calls.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Service<u32> for Counting {
    type Response = Response<usize>;
    type Error = Infallible;
    type Future = Ready<Result<Response<usize>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: u32) -> Self::Future {
        ready(Ok(Response::new(self.0.fetch_add(1, Ordering::Relaxed) + 1)))
    }
}

fn rule(amount: u64, burst: Option<u64>, algorithm: Algorithm) -> Rule {
    let limit = Limit::new(Rate { amount, period: SECOND }, burst, algorithm).unwrap();
    Rule::new("create-url", [limit]).unwrap().by(["user"])
}

fn current(rule: Rule) -> Arc<Current> {
    Arc::new(Current::new(Limiter::new([rule], [1, 2])))
}

/// The cost of a request is the request.
fn question(cost: &u32) -> (Vec<(&'static str, String)>, u32) {
    (vec![("user", "17".to_owned())], *cost)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn a_refused_request_does_not_reach_the_service_until_the_clock_or_another_limit_admits_it() {
    let limiter = current(rule(3, None, Algorithm::FixedWindow));
    let clock = Arc::new(AtomicU64::new(SECOND));
    let now = Arc::clone(&clock);
    let layer =
        RateLimit::new(Arc::clone(&limiter), move || now.load(Ordering::Relaxed), question, too_many_requests::<usize>);
    let mut service = layer.layer(Counting::default());
    let runtime = runtime();
    let mut call = |cost| runtime.block_on(service.call(cost)).unwrap();
    assert_eq!(call(2).into_body(), 1);
    let refused = call(2);
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let header = |name: &str| refused.headers().get(name).and_then(|value| value.to_str().ok());
    assert_eq!(header("ratelimit-policy"), Some("\"create-url\";q=3;w=1"));
    assert_eq!(header("ratelimit"), Some("\"create-url\";r=1;t=1"));
    // One second, and up to a tenth at random.
    assert!(matches!(header("retry-after"), Some("1" | "2")));
    assert_eq!(call(4).headers().get("retry-after"), None);
    // A clone of the service has the same limits.
    assert_eq!(runtime.block_on(service.clone().call(2)).unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    limiter.change([rule(4, None, Algorithm::FixedWindow)], clock.load(Ordering::Relaxed));
    let mut call = |cost| runtime.block_on(service.call(cost)).unwrap();
    assert_eq!(call(2).into_body(), 2);
    assert_eq!(call(1).status(), StatusCode::TOO_MANY_REQUESTS);
    clock.store(2 * SECOND, Ordering::Relaxed);
    assert_eq!(call(4).into_body(), 3);
}

#[test]
fn a_request_waits_in_its_queue_and_too_many_that_wait_are_refused() {
    let limiter = current(rule(20, Some(10), Algorithm::Queue));
    let refuse = |decision: &Decision<'_>| {
        let wait = decision.limit.and_then(|usage| usage.wait);
        Response::new(usize::try_from(wait.unwrap().as_millis()).unwrap() * 1_000)
    };
    let calls = Counting::default();
    let mut service = RateLimit::new(limiter, || SECOND, question, refuse).with_waiting(1).layer(calls.clone());
    runtime().block_on(async {
        let begin = Instant::now();
        let [first, second, third] = [service.call(1), service.call(1), service.call(1)];
        assert_eq!(first.await.unwrap().into_body(), 1);
        assert_eq!(calls.0.load(Ordering::Relaxed), 1);
        // It would have waited for 100 ms, but one request waits already.
        assert_eq!(third.await.unwrap().into_body(), 100_000);
        assert_eq!(second.await.unwrap().into_body(), 2);
        assert!(begin.elapsed() >= Duration::from_millis(50));
        // The place for those that wait is free again.
        assert_eq!(service.call(1).await.unwrap().into_body(), 3);
    });
}
