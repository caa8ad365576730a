//! What hosts of a fleet tell each other of clients that they limit for applications. It has a stream of its own, so many
//! of these do not displace denied sources, and hosts of earlier versions do not read it.

use ratelimit_protocol::stops::Stopped;

use super::bans::Exchange;

/// The keys of what hosts have told.
const KEYS: [&str; 2] = ["{rl:m}:stops", "{rl:m}:stops-stream"];

/// Begins with everything that the engine knows, for this [host](super::bans::host).
#[must_use]
pub fn exchange(host: String) -> Exchange<Stopped> {
    Exchange::with(KEYS, host)
}
