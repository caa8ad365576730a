//! Connections as proxies name them.

use std::net::{IpAddr, SocketAddr};

use crate::stops::Connection;

/// Returns a connection of two texts: `ADDRESS:PORT`, with brackets around an IPv6 address or without. None without texts,
/// and if a client of the proxy uses a Unix socket.
///
/// # Errors
///
/// Fails with what is wrong.
pub(in crate::serve) fn of_texts(local: Option<&str>, remote: Option<&str>) -> Result<Option<Connection>, String> {
    let (local, remote) = match (local, remote) {
        (None, None) => return Ok(None),
        (Some(local), Some(remote)) => (local, remote),
        _ => return Err("connection: both ends are needed, the local one and the remote one".to_owned()),
    };
    if [local, remote].iter().any(|end| end.starts_with("unix:")) {
        return Ok(None);
    }
    let end = |text: &str| {
        // A proxy always adds the port, so what follows the last colon is the port.
        let (address, port) = text.rsplit_once(':')?;
        let address = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, port.parse().ok()?))
    };
    let (Some(local), Some(remote)) = (end(local), end(remote)) else {
        return Err("connection: expected ADDRESS:PORT for each end, such as 192.0.2.1:443".to_owned());
    };
    Connection { local, remote }.checked().map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(local: &str, remote: &str) -> Result<Option<(String, String)>, String> {
        let connection = of_texts(Some(local), Some(remote))?;
        Ok(connection.map(|Connection { local, remote }| (local.to_string(), remote.to_string())))
    }

    fn ends(local: &str, remote: &str) -> Option<(String, String)> {
        Some((local.to_owned(), remote.to_owned()))
    }

    #[test]
    fn both_spellings_of_ipv6_are_read() {
        let expected = ends("[2001:db8::1]:443", "[2001:db8::7]:51000");
        assert_eq!(read("2001:db8::1:443", "2001:db8::7:51000"), Ok(expected.clone()));
        assert_eq!(read("[2001:db8::1]:443", "[2001:db8::7]:51000"), Ok(expected));
        let expected = ends("192.0.2.1:443", "203.0.113.7:51000");
        assert_eq!(read("::ffff:192.0.2.1:443", "203.0.113.7:51000"), Ok(expected));
    }

    #[test]
    fn a_client_of_a_unix_socket_has_no_connection() {
        assert_eq!(read("unix:/run/nginx.sock:", "unix::"), Ok(None));
        assert_eq!(of_texts(None, None).map(|connection| connection.is_none()), Ok(true));
    }

    #[test]
    fn other_texts_are_refused() {
        for (local, remote) in [
            ("", ""),
            ("192.0.2.1", "203.0.113.7"),
            (":443", ":1"),
            ("192.0.2.1:443", "203.0.113.7:"),
            ("192.0.2.1:443", "203.0.113.7:65536"),
            ("192.0.2.1:443", "host:1"),
            ("192.0.2.1:443", "203.0.113.7:0"),
            ("192.0.2.1:443", "[2001:db8::7]:1"),
        ] {
            assert!(read(local, remote).is_err(), "{local} {remote}");
        }
        assert!(of_texts(Some("192.0.2.1:443"), None).is_err());
    }
}
