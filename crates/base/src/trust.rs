//! Whom connections trust, and what encrypts them.

use std::{io, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, Error, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio_rustls::TlsConnector;

use crate::text::excerpt::excerpt;

/// Why a file with certificates or a key makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is no certificate.
    #[error("expected a certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    /// A certificate makes no sense.
    #[error("certificate {0} of this file cannot be read: copy the file again")]
    Certificate(usize),
    /// The certificate is of an old version, which has no names.
    #[error(
        "the certificate has version 1: make one of version 3 that has subjectAltName (with `openssl x509`, give \
         -copy_extensions copy)"
    )]
    Version,
    /// There is no key.
    #[error("expected a key in PEM without a password, which begins with -----BEGIN PRIVATE KEY-----")]
    NoKey,
    /// The key makes no sense, or is of an unknown kind.
    #[error("the key cannot be read, or is of another kind than RSA, ECDSA and Ed25519")]
    Key,
    /// The key belongs to another certificate.
    #[error("the key belongs to another certificate than that of certificate-file")]
    OtherKey,
}

impl Problem {
    /// Returns whether the file of the key has it, and not one of certificates.
    #[must_use]
    pub fn is_of_key(self) -> bool {
        matches!(self, Self::NoKey | Self::Key | Self::OtherKey)
    }
}

/// The authorities whose certificates are accepted.
#[derive(Debug, Clone, Default)]
pub enum Trust {
    /// Those that the system trusts. They are read for each connection.
    #[default]
    System,
    /// These alone.
    Only(Arc<RootCertStore>),
}

impl Trust {
    /// Reads one or several authorities as PEM.
    pub fn of_pem(pem: &[u8]) -> Result<Self, Problem> {
        trusted(pem).map(|trusted| Self::Only(Arc::new(trusted)))
    }

    /// Returns what encrypts connections. None if the system trusts no authority.
    pub fn connector(&self) -> Option<TlsConnector> {
        let trusted = match self {
            Self::System => of_system(),
            Self::Only(trusted) => Some(Arc::clone(trusted)),
        };
        trusted.and_then(connector)
    }
}

/// Reads authorities.
///
/// # Errors
///
/// Any [`Problem`] of certificates.
pub fn trusted(pem: &[u8]) -> Result<RootCertStore, Problem> {
    let mut store = RootCertStore::empty();
    for (index, certificate) in chain(pem)?.into_iter().enumerate() {
        store.add(certificate).map_err(|_| Problem::Certificate(index + 1))?;
    }
    Ok(store)
}

pub(crate) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let mut chain = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        chain.push(certificate.map_err(|_| Problem::Certificate(chain.len() + 1))?);
    }
    if chain.is_empty() { Err(Problem::NoCertificate) } else { Ok(chain) }
}

/// Chooses the implementation of cryptography for the whole process. Without a choice, a connection could panic.
pub fn choose_cryptography() {
    // It fails if this was done before.
    let _ = ring::default_provider().install_default();
}

/// Returns the authorities that the system trusts. None without any.
pub fn of_system() -> Option<Arc<RootCertStore>> {
    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    (!trusted.is_empty()).then(|| Arc::new(trusted))
}

/// Returns what encrypts connections with HTTP/1 to servers of these authorities.
pub fn connector(trusted: Arc<RootCertStore>) -> Option<TlsConnector> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    // The provider has both versions, so this does not fail.
    let versions = builder.with_safe_default_protocol_versions().ok()?;
    let mut config = versions.with_root_certificates(trusted).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(TlsConnector::from(Arc::new(config)))
}

/// Returns why a connection is not encrypted, and what to do.
pub fn problem(error: &io::Error) -> String {
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
