//! What a line may say.

use proptest::prelude::*;

use super::*;

fn line(local: &str, remote: &str, rule: &str, client: &str) -> Vec<u8> {
    let connection = serde_json::json!({ "local": local, "remote": remote });
    serde_json::json!({ "connection": connection, "rule": rule, "client": client }).to_string().into_bytes()
}

fn read(local: &str, remote: &str, rule: &str, client: &str) -> Result<Request, RequestError> {
    Request::read(&line(local, remote, rule, client))
}

#[test]
fn a_request_names_a_connection_a_rule_and_a_client() {
    let request = read("[::ffff:192.0.2.1]:443", "[::ffff:203.0.113.7]:51000", "create-url", "user=17").unwrap();
    let ends = (request.connection.local.to_string(), request.connection.remote.to_string());
    assert_eq!(ends, ("192.0.2.1:443".to_owned(), "203.0.113.7:51000".to_owned()));
    assert_eq!((request.rule.as_str(), request.label().as_str()), ("create-url", "user=17"));
}

#[test]
fn a_client_cannot_write_into_a_log_or_a_terminal() {
    let request = read("192.0.2.1:443", "203.0.113.7:51000", "a", "x\n\u{1b}[2J\u{202e}").unwrap();
    assert_eq!(request.label(), "x\\n\\u{1b}[2J\\u{202e}");
}

#[test]
fn what_is_out_of_bounds_is_refused_with_its_reason() {
    let (local, remote) = ("192.0.2.1:443", "203.0.113.7:51000");
    let refused = |local: &str, remote: &str, rule: &str, client: &str| read(local, remote, rule, client).unwrap_err();
    assert_eq!(refused(local, "[2001:db8::1]:51000", "a", ""), RequestError::Families);
    assert_eq!(refused(local, "203.0.113.7:0", "a", ""), RequestError::Port);
    assert_eq!(refused("192.0.2.1:0", remote, "a", ""), RequestError::Port);
    for rule in ["", "A", "a b", "a\n", "a".repeat(65).as_str()] {
        assert_eq!(refused(local, remote, rule, ""), RequestError::Rule, "{rule:?}");
    }
    assert_eq!(refused(local, remote, "a", &"c".repeat(257)), RequestError::Client);
    assert_eq!(refused(local, remote, "a", &"c".repeat(LINE)), RequestError::Long);
    assert!(matches!(refused("192.0.2.1", remote, "a", ""), RequestError::Form(_)));
    assert!(read(local, remote, &"a".repeat(64), &"c".repeat(256)).is_ok());
    let unknown = br#"{"connection":{"local":"192.0.2.1:1","remote":"192.0.2.2:1"},"rule":"a","client":"","for":"1h"}"#;
    assert!(matches!(Request::read(unknown), Err(RequestError::Form(_))));
}

proptest! {
    #[test]
    fn a_request_that_is_written_can_be_read(client: String, rule in "[a-z]{1,64}", remote: std::net::Ipv6Addr, port in 1..=u16::MAX) {
        let connection = Connection {
            local: std::net::SocketAddr::new(std::net::Ipv6Addr::from_bits(u128::MAX >> 1).into(), u16::MAX),
            remote: std::net::SocketAddr::new(remote.into(), port),
        };
        let long = client.clone() + &"\u{1}".repeat(300);
        for client in [client, long] {
            let line = Request { connection, rule: rule.clone(), client: client.clone() }.write();
            let is_mixed = remote.to_ipv4_mapped().is_some();
            let Ok(read) = Request::read(&line) else { prop_assert!(is_mixed); continue };
            prop_assert!(client.starts_with(&read.client) && (client.len() > 64 || read.client == client));
        }
    }

    #[test]
    fn no_line_is_a_panic(line: Vec<u8>) {
        let _ = Request::read(&line);
    }
}
