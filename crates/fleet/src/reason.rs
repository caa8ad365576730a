//! What an error of the engine's library means, in one short line.

use ratelimit_base::text::excerpt::escaped;
use redis::RedisError;

/// The most characters of a message that the server may choose.
const MESSAGE: usize = 120;

/// Parts of errors about logins and certificates, and what they mean. An error about a whole cluster has its cause only
/// as text.
const KNOWN: [(&str, &str); 13] = [
    ("AuthenticationFailed", "it refuses the login with this user and password"),
    ("NOAUTH", "it asks for a password"),
    ("BadSignature", "its certificate is not signed by an authority that this host trusts"),
    ("UnknownIssuer", "its certificate is not signed by an authority that this host trusts"),
    ("CaUsedAsEndEntity", "its certificate is that of an authority, and not of a server"),
    ("certificate expired", "its certificate has expired"),
    ("certificate not valid yet", "its certificate is not valid yet"),
    ("CertificateRequired", "it asks for the certificate of this host"),
    ("CertificateExpired", "it says that the certificate of this host has expired"),
    ("UnknownCA", "it does not trust the certificate of this host"),
    ("BadCertificate", "it refuses the certificate of this host"),
    ("UnsupportedCertificate", "it refuses the certificate of this host"),
    ("CertificateUnknown", "it refuses the certificate of this host"),
];

/// The beginning and the middle of the error about another name. The end has the names in the certificate.
const OTHER_NAME: [&str; 2] = ["certificate not valid for name", "; certificate "];

/// Returns what an error means.
pub(super) fn reason(error: &RedisError) -> String {
    of(&error.to_string())
}

/// Returns an error of a URL as one short line, without the library's name for its kind.
pub(super) fn of_url(error: &RedisError) -> String {
    line(&error.to_string().replace(" - InvalidClientConfig", ""))
}

fn of(text: &str) -> String {
    if let Some((_, meaning)) = KNOWN.iter().find(|(part, _)| text.contains(part)) {
        return (*meaning).to_owned();
    }
    let [beginning, middle] = OTHER_NAME;
    match text.split_once(beginning).and_then(|(_, rest)| rest.split_once(middle)) {
        Some((_, names)) => line(&format!("its certificate {names}")),
        None => line(text),
    }
}

fn line(text: &str) -> String {
    let line = text.split(char::is_control).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    escaped(&line).chars().take(MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_found_in_the_error_about_a_cluster() {
        let text = "Failed to create initial connections - Io: invalid peer certificate: UnknownIssuer";
        assert_eq!(of(text), "its certificate is not signed by an authority that this host trusts");
    }

    #[test]
    fn names_that_a_server_chooses_cannot_control_the_terminal() {
        let certificate = |name: &str| {
            let beginning = "invalid peer certificate: certificate not valid for name \"10.0.0.5\"; certificate";
            of(&format!("{beginning} is only valid for {name}"))
        };
        assert_eq!(certificate("redis.example"), "its certificate is only valid for redis.example");
        let reason = certificate(&"\u{1b}[2J\u{202e}\n".repeat(100));
        assert!(!reason.contains(char::is_control) && !reason.contains('\u{202e}'), "{reason}");
        assert_eq!(reason.chars().count(), MESSAGE);
    }
}
