//! Whom connections trust, and what encrypts them.

use std::{io, sync::Arc};

use rustls::{CertificateError, ClientConfig, Error, RootCertStore, crypto::ring};
use tokio_rustls::TlsConnector;

use super::error::FetchError;
use crate::{
    fleet::certificates::{self, Problem},
    text::excerpt::excerpt,
};

/// The authorities whose certificates are accepted.
#[derive(Debug, Clone, Default)]
pub(crate) enum Trust {
    /// Those that the system trusts. They are read for each connection.
    #[default]
    System,
    /// These alone.
    Only(Arc<RootCertStore>),
}

impl Trust {
    /// Reads one or several authorities as PEM.
    pub(crate) fn of_pem(pem: &[u8]) -> Result<Self, Problem> {
        certificates::trusted(pem).map(|trusted| Self::Only(Arc::new(trusted)))
    }

    pub(super) fn connector(&self) -> Result<TlsConnector, FetchError> {
        let trusted = match self {
            Self::System => of_system(),
            Self::Only(trusted) => Some(Arc::clone(trusted)),
        };
        trusted.and_then(connector).ok_or(FetchError::NoAuthority)
    }
}

/// Returns the authorities that the system trusts. None without any.
pub(crate) fn of_system() -> Option<Arc<RootCertStore>> {
    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    (!trusted.is_empty()).then(|| Arc::new(trusted))
}

/// Returns what encrypts connections with HTTP/1 to servers of these authorities.
pub(crate) fn connector(trusted: Arc<RootCertStore>) -> Option<TlsConnector> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    // The provider has both versions, so this does not fail.
    let versions = builder.with_safe_default_protocol_versions().ok()?;
    let mut config = versions.with_root_certificates(trusted).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(TlsConnector::from(Arc::new(config)))
}

/// Returns why a connection is not encrypted, and what to do.
pub(super) fn problem(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    let text = match cause {
        Some(Error::InvalidCertificate(reason)) => match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is of no trusted authority: name its authority in ca-file"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has ended: tell the owner of the server, or set the clock of this host"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: set the clock of this host"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate has another name: write that name into the address"
            }
            other => return format!("its certificate is not accepted: {}", excerpt(&other.to_string())),
        },
        Some(Error::InvalidMessage(_)) => "it answers without encryption: check the port",
        _ => return excerpt(&error.to_string()),
    };
    text.to_owned()
}
