//! Encrypted connections. The certificate can change while they are open.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use anyhow::Result;
use rustls::{
    ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use tokio_rustls::TlsAcceptor;

/// The certificate that new connections show.
pub(in crate::serve) struct Shown(RwLock<Arc<CertifiedKey>>);

impl Shown {
    pub(in crate::serve) fn new(certified: CertifiedKey) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Arc::new(certified))))
    }

    /// Shows another certificate from now on.
    pub(in crate::serve) fn change(&self, certified: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
    }

    /// Returns what encrypts connections that speak this protocol, by its name in ALPN: `http/1.1` or `h2`.
    pub(in crate::serve) fn acceptor(self: &Arc<Self>, protocol: &str) -> Result<TlsAcceptor> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let versions = builder.with_protocol_versions(&[&TLS13, &TLS12])?;
        let certificate = Arc::<Self>::clone(self);
        let mut config = versions.with_no_client_auth().with_cert_resolver(certificate);
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}
