//! What encrypts connections, and whom a caller trusts.

use std::{io, sync::Arc};

use ratelimit_base::{stream::Stream, text::excerpt::excerpt, trust};
use rustls::{AlertDescription, CertificateError, Error, RootCertStore, pki_types::ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::error::{AuthorityError, CallerError, EncryptionError};

/// The authorities whose certificates a caller accepts.
#[derive(Debug, Clone)]
pub struct Authority(Arc<RootCertStore>);

impl Authority {
    /// Reads one or several authorities as PEM.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if one makes no sense.
    pub fn of_pem(pem: &[u8]) -> Result<Self, AuthorityError> {
        trust::trusted(pem).map(|trusted| Self(Arc::new(trusted))).map_err(AuthorityError)
    }

    /// Returns those that the system trusts.
    pub(super) fn of_system() -> Result<Self, CallerError> {
        trust::of_system().map(Self).ok_or(CallerError::NoAuthority)
    }
}

/// What encrypts connections to a server.
#[derive(Clone)]
pub(super) struct Encryption(TlsConnector);

impl Encryption {
    /// Encrypts connections to a server of these authorities, or of those of the system.
    pub(super) fn new(_: &str, authority: Option<&Authority>) -> Result<Self, CallerError> {
        let Authority(trusted) = authority.map_or_else(Authority::of_system, |authority| Ok(authority.clone()))?;
        trust::connector(trusted).map(Self).ok_or(CallerError::NoAuthority)
    }

    /// Agrees on keys with the server of this name.
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> Result<Box<dyn Stream>, EncryptionError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| EncryptionError::NoName)?;
        let stream = self.0.connect(name, stream).await.map_err(|error| problem(&error))?;
        Ok(Box::new(stream))
    }
}

/// Returns whether a certificate can have the name of this host.
pub(super) fn can_name(host: &str) -> bool {
    ServerName::try_from(host).is_ok()
}

/// Returns why keys could not be agreed.
fn problem(error: &io::Error) -> EncryptionError {
    let Some(cause) = error.get_ref().and_then(|error| error.downcast_ref::<Error>()) else {
        return EncryptionError::Closed(error.to_string());
    };
    match cause {
        Error::InvalidCertificate(reason) => match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => EncryptionError::Untrusted,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => EncryptionError::Ended,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => EncryptionError::Early,
            CertificateError::NotValidForName => EncryptionError::Name(String::new()),
            CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
                EncryptionError::NoName
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                let names: Vec<_> = presented.iter().map(|name| inner(name)).collect();
                EncryptionError::Name(format!(" (it has {})", excerpt(&names.join(", "))))
            }
            // The crate with this error is none of ours.
            CertificateError::Other(error) if error.to_string() == "CaUsedAsEndEntity" => EncryptionError::Authority,
            other => EncryptionError::Certificate(refusal(other)),
        },
        Error::InvalidMessage(_) => EncryptionError::Plain,
        Error::PeerIncompatible(_)
        | Error::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure) => {
            EncryptionError::Version
        }
        other => EncryptionError::Closed(excerpt(&other.to_string())),
    }
}

/// Returns a name without the kind that the library writes around it, as in `DnsName("limits.example")`.
fn inner(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.map_or(name, |inner| inner.trim_matches('"'))
}

/// Returns a rare reason why a certificate is refused.
fn refusal(error: &CertificateError) -> String {
    let text = match error {
        CertificateError::BadEncoding => "it cannot be read",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not for servers, as its extendedKeyUsage lacks serverAuth"
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the algorithm of a signature is not supported"
        }
        CertificateError::Other(error) => return words(&error.to_string()),
        other => return words(&format!("{other:?}")),
    };
    text.to_owned()
}

/// Returns a name of the library, such as `NameConstraintViolation`, as words. The library can write details behind it.
/// Any other text stays as it is.
fn words(text: &str) -> String {
    let name = text.split(['(', '{']).next().unwrap_or_default().trim_end();
    if name.is_empty() || !name.chars().all(|character| character.is_ascii_alphanumeric()) {
        return if text.is_empty() { "no reason is known".to_owned() } else { excerpt(text) };
    }
    let mut words = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(character.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use rustls::OtherError;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Library(&'static str);

    #[test]
    fn reasons_of_the_library_become_plain_words() {
        let other = |name| CertificateError::Other(OtherError(Arc::new(Library(name))));
        for (error, expected) in [
            (other("CaUsedAsEndEntity"), EncryptionError::Authority),
            (other("NameConstraintViolation"), EncryptionError::Certificate("name constraint violation".to_owned())),
            (other("TrailingData(Certificate)"), EncryptionError::Certificate("trailing data".to_owned())),
            (other("bad thing"), EncryptionError::Certificate("bad thing".to_owned())),
            (other("(bad) thing\n"), EncryptionError::Certificate("(bad) thing\\n".to_owned())),
            (other(""), EncryptionError::Certificate("no reason is known".to_owned())),
            (CertificateError::Revoked, EncryptionError::Certificate("revoked".to_owned())),
            (CertificateError::BadEncoding, EncryptionError::Certificate("it cannot be read".to_owned())),
        ] {
            assert_eq!(problem(&io::Error::other(Error::InvalidCertificate(error))), expected);
        }
    }
}
