//! An authority that signs certificates for servers and hosts.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// An authority.
#[derive(Debug)]
pub struct Authority {
    /// Its certificate as PEM.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key as PEM.
#[derive(Debug, Clone)]
pub struct Signed {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Authority {
    /// Creates an authority with a new key.
    ///
    /// # Panics
    ///
    /// If there are no random numbers.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("no key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).expect("no certificate").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate for these names and addresses.
    ///
    /// # Panics
    ///
    /// If one is no name.
    #[must_use]
    pub fn sign(&self, names: &[&str]) -> Signed {
        self.sign_until(names, 2999)
    }

    /// Signs one that ends with this year.
    ///
    /// # Panics
    ///
    /// If one is no name.
    #[must_use]
    pub fn sign_until(&self, names: &[&str], year: i32) -> Signed {
        let mut params = of(names);
        params.not_after = date_time_ymd(year, 12, 31);
        self.sign_params(params)
    }

    /// Signs one of another authority.
    ///
    /// # Panics
    ///
    /// If one is no name.
    #[must_use]
    pub fn sign_authority(&self, names: &[&str]) -> Signed {
        let mut params = of(names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        self.sign_params(params)
    }

    fn sign_params(&self, params: CertificateParams) -> Signed {
        let key = KeyPair::generate().expect("no key");
        let certificate = params.signed_by(&key, &self.issuer).expect("no certificate");
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn of(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    CertificateParams::new(names).expect("no name")
}
