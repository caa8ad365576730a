//! What encrypts connections, and whom a caller trusts.

use std::{io, sync::Arc};

use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore, crypto::ring};
use tokio_rustls::TlsConnector;

use super::error::{AuthorityError, CallerError, EncryptionError};
use crate::{fleet::certificates, text::excerpt::excerpt};

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
        certificates::trusted(pem).map(|trusted| Self(Arc::new(trusted))).map_err(AuthorityError)
    }

    /// Returns those that the system trusts.
    pub(super) fn of_system() -> Result<Self, CallerError> {
        let mut trusted = RootCertStore::empty();
        trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if trusted.is_empty() { Err(CallerError::NoAuthority) } else { Ok(Self(Arc::new(trusted))) }
    }
}

/// Returns what encrypts connections to a server of these authorities, or of those of the system.
pub(super) fn connector(authority: Option<&Authority>) -> Result<TlsConnector, CallerError> {
    let Authority(trusted) = authority.map_or_else(Authority::of_system, |authority| Ok(authority.clone()))?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    // The provider has both versions, so this does not fail.
    let versions = builder.with_safe_default_protocol_versions().map_err(|_| CallerError::NoAuthority)?;
    let mut config = versions.with_root_certificates(trusted).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Returns why keys could not be agreed.
pub(super) fn problem(error: &io::Error) -> EncryptionError {
    let Some(cause) = error.get_ref().and_then(|error| error.downcast_ref::<Error>()) else {
        return EncryptionError::Closed(error.to_string());
    };
    match cause {
        Error::InvalidCertificate(reason) => match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => EncryptionError::Untrusted,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => EncryptionError::Ended,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => EncryptionError::Early,
            CertificateError::NotValidForName => EncryptionError::Name(String::new()),
            CertificateError::NotValidForNameContext { presented, .. } => {
                EncryptionError::Name(format!(" (it has {})", excerpt(&presented.join(", "))))
            }
            other => EncryptionError::Certificate(excerpt(&other.to_string())),
        },
        Error::InvalidMessage(_) => EncryptionError::Plain,
        Error::PeerIncompatible(_)
        | Error::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure) => {
            EncryptionError::Version
        }
        other => EncryptionError::Closed(excerpt(&other.to_string())),
    }
}
