//! Servers of requests that share limits through a real Redis.

mod lies;
mod lost;
mod member;
mod rights;
mod rules;
mod usage;

use ratelimit_tests::{Decided, Redis, Sandbox, Sharing};
use rustix::process::Signal;

fn mean(admitted: &[f64]) -> f64 {
    admitted.iter().sum::<f64>() / admitted.len() as f64
}

#[test]
fn three_servers_share_one_limit_and_each_has_its_own_while_redis_is_silent() {
    let sandbox = Sandbox::new();
    let redis = Redis::start(&sandbox, &[]);
    let mut servers = Sharing::start(&sandbox, &redis);
    let shared = servers.saturate(10);
    println!("shared: {shared:?}");
    assert!((0.97..=1.03).contains(&mean(&shared[5..])), "{shared:?}");
    // A server that is connected and silent.
    redis.process.signal(Signal::STOP);
    let local = servers.saturate(12);
    println!("without Redis: {local:?}");
    // On a busy machine, the clients do not always ask for all of it. What they leave, they can have a second later.
    assert!(mean(&local[3..]) >= 2.7, "{local:?}");
    // Each server admits its burst, which is one second of its limit, and its rate.
    assert!(local.iter().sum::<f64>() <= 3.0 * (1.0 + local.len() as f64) + 0.1, "{local:?}");
    assert_eq!(servers.ask("18"), [Decided { is_allowed: true, is_local: true }; 3]);
    for line in servers.lines() {
        assert!(line.contains("gives no shares: no answer within 100 ms: local limits apply until it does"), "{line}");
    }
    redis.process.signal(Signal::CONT);
    let again = servers.saturate(12);
    println!("with Redis again: {again:?}");
    assert!((0.97..=1.03).contains(&mean(&again[8..])), "{again:?}");
    servers.end();
}
