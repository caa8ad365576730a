//! Connections without their sender, to find sockets that take packets from every sender.

use crate::parse::connection::Connection;

/// Sets the sender to an address that no connection has. Then only a socket that takes packets from every sender is
/// found. Of its port, three bits stay: they spread senders over sockets that share a port (`SO_REUSEPORT`).
#[inline(always)]
pub(crate) fn forget(connection: &mut Connection, is_ipv6: bool) {
    let [first, second, third, fourth, last] = connection.words;
    connection.words = if is_ipv6 {
        [0, 0, third, fourth, without_sender(last)]
    } else {
        let [_, _, _, _, e, f, g, h] = first.to_ne_bytes();
        [u64::from_ne_bytes([0, 0, 0, 0, e, f, g, h]), without_sender(second), 0, 0, 0]
    };
}

/// Returns both ports with three bits of that of the sender.
#[inline(always)]
const fn without_sender(ports: u64) -> u64 {
    let [_, sender, c, d, ..] = ports.to_ne_bytes();
    u64::from_ne_bytes([0, sender & 7, c, d, 0, 0, 0, 0])
}
