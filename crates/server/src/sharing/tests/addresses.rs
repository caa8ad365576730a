//! Addresses of requests, and how many of them are remembered.

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn direct(address: &str) -> Origin {
    Origin::of(Some(ip(address)), None).unwrap()
}

/// Returns whether a client that goes on asking from an address may be stopped at the end.
fn stops(sharing: &Sharing, who: &Who, origin: Origin, attributes: &[(&str, &str)]) -> bool {
    let notes = (0..20).map(|second| sharing.note(who, origin, attributes, true, BEGIN + second * SECOND).may_stop());
    notes.last().unwrap()
}

#[test]
fn only_attributes_that_say_who_asks_tell_clients_apart() {
    let sharing = Sharing::new([1, 2]);
    let who = Who::of(&rule(&["user", "operation"]));
    let ask = |operation| stops(&sharing, &who, direct("192.0.2.1"), &[("user", "17"), ("operation", operation)]);
    assert!(ask("create"));
    // The same user has asked for both.
    assert!(ask("delete"));
    assert_eq!(who, Who::of(&rule(&["user", "path"])));
    assert_ne!(who, Who::of(&rule(&["user", "ip"])));
}

#[test]
fn an_address_with_requests_without_a_name_is_shared_however_rare_they_are() {
    let sharing = Sharing::new([1, 2]);
    let (who, origin) = (Who::of(&rule(&["user"])), direct("192.0.2.1"));
    let asks = |second: u64| {
        let notes = (0..100).map(|number| second * SECOND + number * SECOND / 100);
        let notes = notes.map(|at| sharing.note(&who, origin, &[("user", "17")], true, BEGIN + at).may_stop());
        notes.last().unwrap()
    };
    // Twelve people of an office read once without an account. One account sends almost all requests.
    for visitor in 0..12 {
        sharing.note(&who, origin, &[("path", format!("/{visitor}"))], false, BEGIN + visitor);
    }
    assert!(!(0..30).any(asks));
    // One of them is enough, and counts for one to two halves.
    sharing.note(&who, origin, &[("path", "/")], false, BEGIN + 31 * SECOND);
    assert!(!(31..90).any(asks));
    assert!((90..120).all(asks));
    // An address without such requests is that of one client.
    assert!(stops(&sharing, &who, direct("192.0.2.2"), &[("user", "17")]));
}

#[test]
fn an_address_is_never_stopped_for_a_client_behind_a_proxy_or_without_a_connection() {
    let sharing = Sharing::new([1, 2]);
    let who = Who::of(&rule(&["ip"]));
    let proxied = Origin::of(Some(ip("192.0.2.1")), Some(ip("203.0.113.7"))).unwrap();
    assert!(!stops(&sharing, &who, proxied, &[("ip", "203.0.113.7")]));
    // Nor for one of which the caller does not know that it is behind the proxy.
    assert!(!stops(&sharing, &who, direct("192.0.2.1"), &[("ip", "192.0.2.1")]));
    // Nor for one whose connection is not known.
    let said = Origin::of(None, Some(ip("192.0.2.2"))).unwrap();
    assert!(!stops(&sharing, &who, said, &[("ip", "192.0.2.2")]));
    assert!(!stops(&sharing, &who, direct("192.0.2.2"), &[("ip", "192.0.2.2")]));
    let same = Origin::of(Some(ip("::ffff:192.0.2.9")), Some(ip("192.0.2.9"))).unwrap();
    assert_eq!(same, direct("192.0.2.9"));
    assert!(stops(&sharing, &who, same, &[("ip", "192.0.2.9")]));
}

#[test]
fn hosts_of_an_ipv6_network_share_it() {
    let sharing = Sharing::new([1, 2]);
    let who = Who::of(&rule(&["user"]));
    for host in 2..8 {
        let origin = direct(&format!("2001:db8::{host}"));
        sharing.note(&who, origin, &[("user", host.to_string())], false, BEGIN);
    }
    assert!(!stops(&sharing, &who, direct("2001:db8::1"), &[("user", "17")]));
    assert!(stops(&sharing, &who, direct("2001:db8:0:1::1"), &[("user", "17")]));
    assert_eq!(Origin::of(None, None), None);
}

#[test]
fn a_million_requests_of_many_addresses_take_bounded_memory_and_stop_nobody() {
    let sharing = Sharing::new([1, 2]);
    let who = Who::of(&rule(&["user"]));
    let origin = |number: u32| Origin::of(Some(IpAddr::from(number.to_be_bytes())), None).unwrap();
    // Each one is refused ten times, in ten seconds.
    for (second, number) in (0..10).flat_map(|second| (0..100_000).map(move |number| (second, number))) {
        let now = BEGIN + second * 2 * SECOND + u64::from(number);
        assert!(!sharing.note(&who, origin(number), &[("user", "17")], true, now).may_stop());
    }
    assert!(sharing.len() <= ADDRESSES, "{}", sharing.len());
    // An address that goes on asking meanwhile is remembered, because others were silent for longer.
    let kept = direct("198.51.100.1");
    let mut may_stop = false;
    for number in 0..100_000 {
        let now = BEGIN + u64::from(number) * KNOWN / 50_000 + 60 * SECOND;
        sharing.note(&who, origin(number), &[("user", "18")], true, now);
        if number % 100 == 0 {
            may_stop = sharing.note(&who, kept, &[("user", "17")], true, now).may_stop();
        }
    }
    assert!(may_stop);
}
