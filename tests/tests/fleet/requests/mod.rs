//! Servers of requests that share limits through a real Redis.

mod lies;
mod lost;
mod member;
mod rights;
mod rules;
mod usage;

use ratelimit_tests::{Decided, Redis, Sandbox, Second, Sharing};
use rustix::process::Signal;

/// Returns what was admitted in each second, and of these the mean from a second on, with the mean of what was wanted.
fn means(seconds: &[Second], from: usize) -> [f64; 2] {
    let mean = |of: fn(&Second) -> f64| seconds[from..].iter().map(of).sum::<f64>() / (seconds.len() - from) as f64;
    [mean(|second| second.admitted), mean(|second| second.wanted)]
}

/// Checks that servers admit one limit together, or what they are asked for on a machine that is too busy for it. What
/// clients leave of the limit on such a machine, they can have later, up to the burst of one second.
fn share_one_limit(seconds: &[Second], from: usize) {
    let [admitted, wanted] = means(seconds, from);
    let is_busy = seconds.iter().any(|second| second.wanted < 2.9);
    let saved = if is_busy { 1.0 / (seconds.len() - from) as f64 } else { 0.0 };
    assert!(admitted <= 1.03 + saved && admitted >= 0.97 * wanted.min(1.0), "{seconds:?}");
}

#[test]
fn three_servers_share_one_limit_and_each_has_its_own_while_redis_is_silent() {
    let sandbox = Sandbox::new();
    let redis = Redis::start(&sandbox, &[]);
    let mut servers = Sharing::start(&sandbox, &redis);
    let shared = servers.saturate(10);
    println!("shared: {shared:?}");
    share_one_limit(&shared, 5);
    // A server that is connected and silent.
    redis.process.signal(Signal::STOP);
    let local = servers.saturate(12);
    println!("without Redis: {local:?}");
    // On a busy machine, the clients do not always ask for all of it. What they leave, they can have a second later.
    let [admitted, wanted] = means(&local, 3);
    assert!(admitted >= 0.9 * wanted, "{local:?}");
    // Each server admits its burst, which is one second of its limit, and its rate.
    let all: f64 = local.iter().map(|second| second.admitted).sum();
    assert!(all <= 3.0 * (1.0 + local.len() as f64) + 0.1, "{local:?}");
    assert_eq!(servers.ask("18"), [Decided { is_allowed: true, is_local: true }; 3]);
    for line in servers.lines() {
        assert!(line.contains("gives no shares: no answer within 100 ms: local limits apply until it does"), "{line}");
    }
    redis.process.signal(Signal::CONT);
    let again = servers.saturate(12);
    println!("with Redis again: {again:?}");
    share_one_limit(&again, 8);
    servers.end();
}
