//! Certificates for encrypted connections to an engine: those that this host trusts, and its own.

use std::fmt;

pub use crate::trust::Problem;
use crate::{
    certificate_end::CertificateEnd,
    trust::{chain, trusted},
};
use jiff::Timestamp;
use rustls::{
    CertificateError,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

/// Certificates as PEM. By default, this host trusts those of the system, and has none of its own.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Certificates {
    authorities: Option<Vec<u8>>,
    own: Option<Own>,
}

/// The certificate of this host, with its key.
#[derive(Clone, PartialEq, Eq)]
struct Own {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Why strict clients refuse the certificate of a server, though others accept it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It is that of an authority.
    #[error(
        "the certificate is that of an authority (CA:TRUE), which clients in Rust refuse: make one for the server, with \
         basicConstraints=CA:FALSE"
    )]
    Authority,
    /// It has no name.
    #[error(
        "the certificate has no name or address as subjectAltName, so clients in Rust refuse it: make one that has those \
         of the server there"
    )]
    NoName,
    /// It is not for servers.
    #[error(
        "the certificate is not for servers, as its extendedKeyUsage lacks serverAuth, so clients refuse it: make one with \
         extendedKeyUsage=serverAuth"
    )]
    Purpose,
}

impl Certificates {
    /// Trusts the authorities of this PEM alone.
    ///
    /// # Errors
    ///
    /// Any [`Problem`] of certificates.
    pub fn trusting(self, pem: Vec<u8>) -> Result<Self, Problem> {
        trusted(&pem)?;
        Ok(Self { authorities: Some(pem), ..self })
    }

    /// Shows this certificate, which may have those of its authorities behind it, to servers that ask for one.
    ///
    /// # Errors
    ///
    /// Any [`Problem`]. See [`Problem::is_of_key`].
    pub fn showing(self, certificate: Vec<u8>, key: Vec<u8>) -> Result<Self, Problem> {
        certified(&certificate, &key)?;
        Ok(Self { own: Some(Own { certificate, key }), ..self })
    }

    /// Returns when the last authority ends, and when the first certificate of this host or behind it ends. Authorities
    /// that the system trusts are not among them.
    #[must_use]
    pub fn ends(&self) -> Vec<CertificateEnd> {
        let ends = |pem: &[u8]| Some(chain(pem).ok()?.iter().map(end).collect::<Vec<_>>());
        // Any authority can have signed the server's certificate. One without an end lasts.
        let last = |ends: Vec<Option<Timestamp>>| ends.into_iter().collect::<Option<Vec<_>>>()?.into_iter().max();
        // A server may need all certificates of this host.
        let first = |ends: Vec<Option<Timestamp>>| ends.into_iter().flatten().min();
        let authorities = self.authorities.as_ref().and_then(|pem| last(ends(pem)?));
        let own = self.own.as_ref().and_then(|own| first(ends(&own.certificate)?));
        let end =
            |(key, ends_at): (&str, Option<Timestamp>)| Some(CertificateEnd { key: key.to_owned(), ends_at: ends_at? });
        [("ca-file", authorities), ("certificate-file", own)].into_iter().filter_map(end).collect()
    }
}

impl Certificates {
    /// Returns the authorities that this host trusts in place of those of the system, as PEM.
    #[must_use]
    pub fn authorities(&self) -> Option<&[u8]> {
        self.authorities.as_deref()
    }

    /// Returns the certificate of this host and its key, as PEM.
    #[must_use]
    pub fn own(&self) -> Option<(&[u8], &[u8])> {
        self.own.as_ref().map(|own| (own.certificate.as_slice(), own.key.as_slice()))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}

/// Reads a certificate, which may have those of its authorities behind it, and its key.
///
/// # Errors
///
/// Any [`Problem`]. See [`Problem::is_of_key`].
pub fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, Problem> {
    let chain = chain(certificate)?;
    let secret = PrivateKeyDer::from_pem_slice(key).map_err(|_| Problem::NoKey)?;
    CertifiedKey::from_der(chain, secret, &ring::default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => Problem::OtherKey,
        // The crate with this error is none of ours.
        rustls::Error::InvalidCertificate(CertificateError::Other(error))
            if error.to_string() == "UnsupportedCertVersion" =>
        {
            Problem::Version
        }
        rustls::Error::InvalidCertificate(_) => Problem::Certificate(1),
        _ => Problem::Key,
    })
}

/// Returns when the first of some certificates ends.
#[must_use]
pub fn first_end(pem: &[u8]) -> Option<Timestamp> {
    chain(pem).ok()?.iter().filter_map(end).min()
}

/// Returns why strict clients refuse the first of some certificates.
#[must_use]
pub fn flaw(pem: &[u8]) -> Option<Flaw> {
    let chain = chain(pem).ok()?;
    let (_, certificate) = parse_x509_certificate(chain.first()?).ok()?;
    if certificate.basic_constraints().ok()?.is_some_and(|constraints| constraints.value.ca) {
        return Some(Flaw::Authority);
    }
    if certificate.extended_key_usage().ok()?.is_some_and(|usage| !usage.value.server_auth) {
        return Some(Flaw::Purpose);
    }
    let names = certificate.subject_alternative_name().ok()?;
    let is_usable = |name: &GeneralName<'_>| matches!(name, GeneralName::DNSName(_) | GeneralName::IPAddress(_));
    names.is_none_or(|names| !names.value.general_names.iter().any(is_usable)).then_some(Flaw::NoName)
}

/// Returns when a certificate ends. None if it is of a kind that has no end.
fn end(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType, date_time_ymd};

    use super::*;

    #[test]
    fn authorities_end_with_the_last_one_and_the_chain_of_a_host_with_the_first_one() {
        let key = KeyPair::generate().unwrap();
        let until = |year| {
            let mut params = CertificateParams::new(vec!["host".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, 12, 31);
            params.self_signed(&key).unwrap().pem()
        };
        let authorities = [2_050, 2_030, 2_999].map(until).concat();
        let certificates = Certificates::default().trusting(authorities.into()).unwrap();
        let chain = [2_028, 2_027].map(until).concat();
        let own = certificates.showing(chain.into(), key.serialize_pem().into()).unwrap();
        let ends: Vec<_> = own.ends().into_iter().map(|end| (end.key, end.ends_at.to_string())).collect();
        let expected = |key: &str, year: i32| (key.to_owned(), format!("{year}-12-31T00:00:00Z"));
        assert_eq!(ends, [expected("ca-file", 2_999), expected("certificate-file", 2_027)]);
        assert_eq!(Certificates::default().ends(), []);
    }

    #[test]
    fn a_certificate_that_strict_clients_refuse_has_a_flaw() {
        let key = KeyPair::generate().unwrap();
        let of = |names: &[&str], is_ca| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            let mut params = CertificateParams::new(names).unwrap();
            params.is_ca = is_ca;
            params.self_signed(&key).unwrap().pem()
        };
        let authority = of(&["host"], IsCa::Ca(BasicConstraints::Unconstrained));
        let good = of(&["host"], IsCa::ExplicitNoCa) + &authority;
        let pems = [&*authority, &of(&[], IsCa::NoCa), &good, &of(&["10.0.0.5"], IsCa::NoCa), "nonsense"];
        let found = pems.map(|pem| flaw(pem.as_bytes()));
        assert_eq!(found, [Some(Flaw::Authority), Some(Flaw::NoName), None, None, None]);
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![SanType::Rfc822Name("a@example.org".try_into().unwrap())];
        assert_eq!(flaw(params.self_signed(&key).unwrap().pem().as_bytes()), Some(Flaw::NoName));
        for (uses, expected) in [
            (vec![ExtendedKeyUsagePurpose::ClientAuth], Some(Flaw::Purpose)),
            // Clients in Rust want serverAuth itself.
            (vec![ExtendedKeyUsagePurpose::Any], Some(Flaw::Purpose)),
            (vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth], None),
        ] {
            let mut params = CertificateParams::new(vec!["host".to_owned()]).unwrap();
            params.extended_key_usages = uses;
            assert_eq!(flaw(params.self_signed(&key).unwrap().pem().as_bytes()), expected);
        }
    }

    #[test]
    fn a_certificate_of_version_1_is_refused_with_advice() {
        let key = KeyPair::generate().unwrap().serialize_pem();
        assert_eq!(certified(VERSION_1.as_bytes(), key.as_bytes()).unwrap_err(), Problem::Version);
    }

    /// Made by `openssl x509 -req` 3.0 without options for extensions.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBIjCByQIUB1H6CkLVCdsp+eW7WaxS2Woey3wwCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MB4XDTI2MTEyNzIyMTcwNFoXDTI2MTIyNzIyMTcwNFow
FDESMBAGA1UEAwwJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
08g+AJL2aKt302FjZ8NMF5k9Vz0UashRA8krEf8w3CDDazyqIYg7ECQE+hPDYIC/
UYCfUMiJzrIXYGNj1chO1jAKBggqhkjOPQQDAgNIADBFAiA4VdG+d/gYT3yG6ftk
Kz8CZMPQv8bVarRHqvTFiOeAZAIhALTqRnEkDtXHkBjU6+5kBVrY6ItWoxhJz2mI
6bxXZIgx
-----END CERTIFICATE-----
";
}
