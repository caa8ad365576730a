//! Tests of the bounds of limits, with times that the tests choose.

mod bounds;
mod networks;
mod others;
mod requests;

use std::{net::IpAddr, time::Duration};

use super::*;

const PORT: u16 = 443;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns a different IPv4 address for each number.
fn v4(number: u32) -> IpAddr {
    IpAddr::V4((0x0a00_0000 + number).into())
}

fn v6(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Asks for a limit that must begin, and returns its source, how long it lasts, and its number.
fn begun(book: &mut Book, address: IpAddr, now: Duration) -> (String, Duration, u32) {
    match book.ask(address, PORT, true, now) {
        Outcome::New { place, end, times } => (place.source.to_string(), end - now, times),
        other => panic!("{other:?}"),
    }
}
