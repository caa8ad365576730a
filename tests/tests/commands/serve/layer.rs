//! The layer in the library, around a service of axum.

use std::{os::unix::net::UnixListener as StdUnixListener, sync::Arc, thread};

use axum::{Router, body::Body, extract::Request, routing::get};
use ratelimit_client::layer::{Clock, Current, RateLimit, too_many_requests};
use ratelimit_limiter::{Algorithm, Limit, Limiter, Rate, Rule};
use ratelimit_tests::Folder;
use tokio::{net::UnixListener, sync::oneshot};

use super::{call, caller::block_on};

fn rule(amount: u64) -> Rule {
    let limit = Limit::new(Rate { amount, period: 3_600_000_000_000 }, None, Algorithm::SlidingLog).unwrap();
    Rule::new("hourly", [limit]).unwrap().by(["user"])
}

#[test]
fn a_service_answers_429_to_a_client_over_its_limit_until_the_limit_is_raised() {
    let folder = Folder::new();
    let socket = folder.file().with_file_name("service.sock");
    let limiter = Arc::new(Current::new(Limiter::new([rule(3)], [1, 2])));
    let clock = Clock::start();
    let question = |request: &Request| {
        let user = request.headers().get("x-user").and_then(|user| user.to_str().ok()).map(str::to_owned);
        (user.map(|user| ("user", user)).into_iter().collect::<Vec<_>>(), 1)
    };
    let layer = RateLimit::new(Arc::clone(&limiter), move || clock.now(), question, too_many_requests::<Body>);
    let app = Router::new().route("/", get(|| async { "served" })).layer(layer);
    let listener = StdUnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let service = thread::spawn(move || {
        block_on(async {
            let listener = UnixListener::from_std(listener).unwrap();
            let end = async { drop(ended.await) };
            axum::serve(listener, app).with_graceful_shutdown(end).await.unwrap();
        });
    });
    let get = |user: &str| call(&socket, &format!("GET / HTTP/1.1\r\nX-User: {user}"), "");
    for _ in 0..3 {
        let answer = get("17");
        assert_eq!((answer.status, answer.body), (200, "served".into()));
    }
    let refused = get("17");
    assert_eq!((refused.status, refused.body), (429, "".into()));
    let refused = get("17");
    assert_eq!(refused.header("ratelimit-policy"), Some("\"hourly\";q=3;w=3600"));
    assert!(refused.header("ratelimit").unwrap().starts_with("\"hourly\";r=0;t="));
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((3_500..=3_960).contains(&seconds), "{seconds}");
    assert_eq!(get("18").status, 200);
    // Nobody is counted without a user.
    assert!((0..5).all(|_| call(&socket, "GET / HTTP/1.1", "").status == 200));
    limiter.change([rule(5)], clock.now());
    assert_eq!([(); 3].map(|()| get("17").status), [200, 200, 429]);
    drop(end);
    service.join().unwrap();
}
