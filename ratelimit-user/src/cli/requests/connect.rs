//! A connection to a server.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::server::{Address, Server};
use crate::wire::Stream;

/// Connects to a server.
pub(super) async fn connect(server: &Server) -> Result<Box<dyn Stream>> {
    match &server.address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).await;
            Ok(Box::new(stream.with_context(|| format!("cannot connect to {}", path.display()))?))
        }
        Address::Tcp { host, port, is_encrypted } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await;
            let stream = stream.with_context(|| format!("cannot connect to {host} port {port}"))?;
            if !is_encrypted {
                return Ok(Box::new(stream));
            }
            let name = ServerName::try_from(host.clone()).with_context(|| format!("{host} is no name of a host"))?;
            let encrypted = encryption(server.authority.as_deref())?.connect(name, stream).await;
            Ok(Box::new(encrypted.with_context(|| format!("no encrypted connection to {host} port {port}"))?))
        }
    }
}

fn encryption(authority: Option<&[u8]>) -> Result<TlsConnector> {
    let mut trusted = RootCertStore::empty();
    match authority {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let added = certificate.map_err(|error| anyhow!("{error:?}")).and_then(|one| Ok(trusted.add(one)?));
                added.context("--ca: a certificate makes no sense")?;
            }
            if trusted.is_empty() {
                bail!("--ca: expected a certificate in PEM, which begins with -----BEGIN CERTIFICATE-----");
            }
        }
        None => {
            trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if trusted.is_empty() {
                bail!("this system trusts no authority: name that of the server with --ca");
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let mut config =
        builder.with_safe_default_protocol_versions()?.with_root_certificates(trusted).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
