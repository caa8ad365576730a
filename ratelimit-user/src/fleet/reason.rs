//! What an error of the engine's library means, in one short line.

use redis::RedisError;

use crate::text::excerpt::escaped;

/// The most characters of a message that the server may choose.
const MESSAGE: usize = 120;

/// Parts of errors about logins and certificates, and what they mean. An error about a whole cluster has its cause only
/// as text.
const KNOWN: [(&str, &str); 13] = [
    ("AuthenticationFailed", "it refuses the login: the user or the password is wrong"),
    ("NOAUTH", "it refuses the login: it needs a password"),
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

/// Returns an error as one short line without control characters, since the server may choose its text.
pub(super) fn one_line(error: &RedisError) -> String {
    line(&error.to_string())
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
