//! When an IPv6 network is limited in place of one address.

use super::*;
use crate::stops::span::MEMORY;

/// Limits so many addresses of the network.
fn limited(addresses: u32) -> Book {
    let mut book = Book::default();
    for number in 1..=addresses {
        let address = format!("2001:db8::{number}");
        assert_eq!(begun(&mut book, v6(&address), seconds(0)).0, address);
    }
    book
}

#[test]
fn the_network_is_limited_after_four_other_addresses_of_it() {
    let mut book = limited(4);
    let limit = begun(&mut book, v6("2001:db8::5"), seconds(1));
    assert_eq!(limit, ("2001:db8::/64".to_owned(), seconds(10), 1));
    // Every address of it is covered.
    let outcome = book.ask(v6("2001:db8::77"), PORT, true, seconds(2));
    assert!(matches!(outcome, Outcome::InForce { place, .. } if place.source.bits() == 64), "{outcome:?}");
}

#[test]
fn the_network_ends_and_is_limited_again_only_after_four_addresses() {
    let mut book = limited(4);
    assert_eq!(begun(&mut book, v6("2001:db8::5"), seconds(1)).0, "2001:db8::/64");
    // One address that goes on limits itself alone.
    let mut now = seconds(11);
    for times in 1..=3 {
        let (source, span, number) = begun(&mut book, v6("2001:db8::5"), now);
        assert_eq!((source.as_str(), number), ("2001:db8::5", times));
        now += span;
    }
    // Another host that tells of the network is not believed either.
    let network = Place { source: around(v6("2001:db8::5")).unwrap(), port: PORT };
    assert_eq!(book.hear(network, now + seconds(9), now), Outcome::Refused(Refusal::FewAddresses));
    for number in 1..=3 {
        let address = format!("2001:db8::{number}");
        assert_eq!(begun(&mut book, v6(&address), now).0, address);
    }
    // The repetition is of the network, and lasts twice as long.
    assert_eq!(begun(&mut book, v6("2001:db8::4"), now), ("2001:db8::/64".to_owned(), seconds(20), 2));
}

#[test]
fn addresses_that_were_limited_more_than_an_hour_ago_do_not_count() {
    let mut book = limited(4);
    assert_eq!(begun(&mut book, v6("2001:db8::5"), MEMORY + seconds(1)).0, "2001:db8::5");
}

#[test]
fn limits_that_are_taken_back_do_not_count_for_the_network() {
    let mut book = limited(4);
    // Their second limits outlast that of the network.
    for number in 1..=4 {
        begun(&mut book, v6(&format!("2001:db8::{number}")), seconds(11));
    }
    assert_eq!(begun(&mut book, v6("2001:db8::5"), seconds(12)).0, "2001:db8::/64");
    for number in 1..=4 {
        let address = v6(&format!("2001:db8::{number}"));
        let (_, span, times) = begun(&mut book, address, seconds(40));
        assert_eq!(times, 3);
        book.take_back(Place::of(address, PORT), seconds(40) + span);
    }
    assert_eq!(begun(&mut book, v6("2001:db8::5"), seconds(41)).0, "2001:db8::5");
}

#[test]
fn one_address_that_comes_again_never_widens_its_limit() {
    let (mut book, mut now) = (limited(3), seconds(10));
    for _ in 0..20 {
        let (source, span, _) = begun(&mut book, v6("2001:db8::9"), now);
        assert_eq!(source, "2001:db8::9");
        now += span;
    }
}

#[test]
fn addresses_of_other_networks_do_not_count() {
    let mut book = limited(3);
    for other in ["2001:db8:0:1::1", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8:0:1::2"] {
        begun(&mut book, v6(other), seconds(1));
    }
    assert_eq!(begun(&mut book, v6("2001:db8::5"), seconds(1)).0, "2001:db8::5");
}

#[test]
fn other_ports_of_one_address_count_as_one_address() {
    let mut book = limited(1);
    for port in 1..20 {
        assert!(matches!(book.ask(v6("2001:db8::1"), port, true, seconds(1)), Outcome::New { .. }));
    }
    assert_eq!(begun(&mut book, v6("2001:db8::2"), seconds(1)).0, "2001:db8::2");
}

#[test]
fn a_network_that_may_not_be_widened_stays_one_address_each() {
    let mut book = limited(4);
    let outcome = book.ask(v6("2001:db8::5"), PORT, false, seconds(1));
    assert!(matches!(outcome, Outcome::New { place, .. } if place.source.is_host()), "{outcome:?}");
}

#[test]
fn addresses_that_are_forgotten_do_not_count() {
    let mut book = limited(4);
    book.ended(seconds(10));
    book.ended(seconds(10_000));
    assert_eq!(begun(&mut book, v6("2001:db8::5"), seconds(10_000)).0, "2001:db8::5");
}

#[test]
fn an_ipv4_address_and_its_mapped_form_are_the_same_place() {
    let mut book = Book::default();
    for number in 1..=8 {
        begun(&mut book, v4(number), seconds(0));
    }
    assert_eq!(begun(&mut book, v4(9), seconds(0)).0, "10.0.0.9");
    assert!(matches!(book.ask(v6("::ffff:10.0.0.9"), PORT, true, seconds(1)), Outcome::InForce { .. }));
}
