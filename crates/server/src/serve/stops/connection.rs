//! Connections as proxies name them.

use std::net::{IpAddr, SocketAddr};

use ratelimit_protocol::stops::Connection;

/// Returns a connection of two texts: `ADDRESS:PORT`, with brackets around an IPv6 address or without.
///
/// None if they are no connection, for example because a client of the proxy uses a Unix socket. A proxy lets requests
/// pass that are refused as wrong, so that must not be an error.
pub(in crate::serve) fn of_texts(local: Option<&str>, remote: Option<&str>) -> Option<Connection> {
    let end = |text: &str| {
        // A proxy always adds the port, so what follows the last colon is the port.
        let (address, port) = text.rsplit_once(':')?;
        let address = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, port.parse().ok()?))
    };
    Connection { local: end(local?)?, remote: end(remote?)? }.checked().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(local: &str, remote: &str) -> Option<[String; 2]> {
        of_texts(Some(local), Some(remote))
            .map(|Connection { local, remote }| [local, remote].map(|end| end.to_string()))
    }

    #[test]
    fn both_spellings_of_ipv6_are_read() {
        let expected = Some(["[2001:db8::1]:443", "[2001:db8::7]:51000"].map(str::to_owned));
        assert_eq!(read("2001:db8::1:443", "2001:db8::7:51000"), expected);
        assert_eq!(read("[2001:db8::1]:443", "[2001:db8::7]:51000"), expected);
        let expected = Some(["192.0.2.1:443", "203.0.113.7:51000"].map(str::to_owned));
        assert_eq!(read("::ffff:192.0.2.1:443", "203.0.113.7:51000"), expected);
    }

    #[test]
    fn other_texts_are_no_connection() {
        for (local, remote) in [
            ("", ""),
            ("unix:/run/nginx.sock:", "unix::"),
            ("192.0.2.1", "203.0.113.7"),
            (":443", ":1"),
            ("192.0.2.1:443", "203.0.113.7:"),
            ("192.0.2.1:443", "203.0.113.7:65536"),
            ("192.0.2.1:443", "host:1"),
            ("192.0.2.1:443", "203.0.113.7:0"),
            ("192.0.2.1:443", "[2001:db8::7]:1"),
        ] {
            assert_eq!(read(local, remote), None, "{local} {remote}");
        }
        assert_eq!(of_texts(Some("192.0.2.1:443"), None), None);
    }
}
