//! One spelling for what proxies say about a request, so that another spelling of the client has no limit of its own.

use std::net::{IpAddr, SocketAddr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What a segment of a path cannot have (RFC 3986). A percent sign is treated before.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/')
    .remove(b'%');

/// Returns a host in small letters without its port.
pub(super) fn host(value: &str) -> String {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let host = value.rsplit_once(':').filter(|(_, end)| is_port(end)).map_or(value, |(host, _)| host);
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns a path as RFC 3986 normalizes it, without query and fragment. If `merges`, slashes in a row are one, and a
/// segment ends before its parameters, such as `;v=1`.
pub(super) fn path(value: &str, merges: bool) -> String {
    // A client may send a whole URL to a proxy.
    let value = match value.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]),
        _ => value,
    };
    let value = value.split(['?', '#']).next().unwrap_or_default();
    let text = escapes(value);
    let mut segments: Vec<&str> = Vec::new();
    let mut is_folder = true;
    for segment in text.strip_prefix('/').unwrap_or(&text).split('/') {
        let segment = if merges { segment.split(';').next().unwrap_or_default() } else { segment };
        is_folder = matches!(segment, "" | "." | "..");
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            "" if merges => {}
            segment => segments.push(segment),
        }
    }
    // Without merging, the empty segment at the end is one of them.
    let end = if is_folder && segments.last().is_some_and(|last| !last.is_empty()) { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

/// Returns a path with the escapes that it needs, and no others, in capital letters.
fn escapes(value: &str) -> String {
    let mut text = String::new();
    let mut parts = value.split('%');
    let escape = |text: &mut String, part: &str| text.extend(utf8_percent_encode(part, &ESCAPED));
    escape(&mut text, parts.next().unwrap_or_default());
    for part in parts {
        let code = part.get(..2).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(code) = code else {
            text += "%25";
            escape(&mut text, part);
            continue;
        };
        match u8::from_str_radix(code, 16) {
            Ok(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => text.push(char::from(byte)),
            _ => text.extend(["%", &code.to_ascii_uppercase()]),
        }
        escape(&mut text, &part[2..]);
    }
    text
}

/// Reads an address as proxies and headers write it: also with a port, in brackets, or with a zone.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let is_port = |end: &str| end.is_empty() || end.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let bare = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, end)) if is_port(end) => address,
        _ => text,
    };
    let bare = bare.split_once('%').map_or(bare, |(address, _)| address);
    bare.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip())).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_spelling_of_a_path_is_the_same_path() {
        for spelling in [
            "/login",
            "/%6cogin",
            "/%6Cogin",
            "/./login",
            "//login",
            "/x/../login",
            "/login#f",
            "/login;v=1",
            "/login?a=/b",
            "/%2e/login",
            "/x/%2E%2e/login",
            "/x/..;a/login",
            "/../login",
            "///.//login",
            "http://host/login",
            "login",
            "HTTPS://host:443//login?x",
            "/;a/login",
            "/%6c%6F%67%69%6e",
        ] {
            assert_eq!(path(spelling, true), "/login", "{spelling}");
        }
        for (spelling, expected) in [
            ("", "/"),
            ("?", "/"),
            ("http://host", "/"),
            ("/a/", "/a/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a/..", "/"),
            ("/a%2fb", "/a%2Fb"),
            ("/%zz", "/%25zz"),
            ("/%", "/%25"),
            ("/a b\u{e9}\u{1}", "/a%20b%C3%A9%01"),
            ("/%41%5b", "/A%5B"),
            ("/Login", "/Login"),
            ("/a/;v=1", "/a/"),
            ("/a;v=1/b", "/a/b"),
            ("/%6", "/%256"),
            ("/a://b", "/a:/b"),
            ("*", "/*"),
        ] {
            assert_eq!(path(spelling, true), expected, "{spelling}");
        }
        for (spelling, expected) in [
            ("//login", "//login"),
            ("/login;v=1", "/login;v=1"),
            ("/a//", "/a//"),
            ("/a//../b", "/a/b"),
            ("/a/", "/a/"),
        ] {
            assert_eq!(path(spelling, false), expected, "{spelling}");
        }
    }

    #[test]
    fn addresses_are_read_however_proxies_write_them() {
        for (text, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            (" 192.0.2.1:80 ", Some("192.0.2.1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:443", Some("2001:db8::1")),
            ("fe80::1%eth0", Some("fe80::1")),
            ("[192.0.2.1]", Some("192.0.2.1")),
            ("[192.0.2.1]:80", Some("192.0.2.1")),
            ("[192.0.2.1]x", None),
            ("", None),
            ("unix:", None),
            ("192.0.2", None),
            ("192.0.2.1:x", None),
            ("unknown", None),
            ("k\u{1}", None),
        ] {
            assert_eq!(address(text), expected.map(|text| text.parse().unwrap()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_path_in_one_spelling_stays_as_it_is(value in "[/.;%#?a-c2eE5é \\\\]{0,24}", merges: bool) {
            let once = path(&value, merges);
            prop_assert_eq!(path(&once, merges), once.clone());
            prop_assert!(once.starts_with('/') && !once.contains("/./") && !once.contains("/../"), "{}", once);
            prop_assert!(!merges || !once.contains("//") && !once.contains(';'), "{}", once);
            prop_assert!(once.is_ascii());
        }
    }
}
