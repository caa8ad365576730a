//! The certificate that the server shows to callers: the keys `tls-cert` and `tls-key`.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ratelimit_base::{
    certificates::{self, Flaw, Problem},
    files::named::{self as file, Readers},
};
use rustls::sign::CertifiedKey;

/// The most bytes of a file.
const MOST: usize = 1 << 20;
/// The key that names the file of the certificate.
pub(super) const CERTIFICATE: &str = "tls-cert";
/// The key that names the file of its key.
pub(super) const KEY: &str = "tls-key";

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encryption {
    /// The certificate, with those of its authorities behind it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A certificate with its key.
#[derive(Debug)]
pub struct Certificate {
    /// Both, for the library.
    pub certified: CertifiedKey,
    /// When the first certificate of the file ends. None without an end.
    pub ends_at: Option<Timestamp>,
    /// Why strict clients refuse the certificate.
    pub flaw: Option<Flaw>,
}

impl Encryption {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Fails with the key of the file that makes no sense, and why.
    pub fn read(&self) -> Result<Certificate, String> {
        let wrong = |name: &str, path: &Path, problem: String| format!("{name}: {}: {problem}", path.display());
        let bytes = |name: &str, path: &Path, readers| {
            file::read(path, MOST, readers).map_err(|problem| wrong(name, path, problem))
        };
        let chain = bytes(CERTIFICATE, &self.certificate, Readers::All)?;
        let key = bytes(KEY, &self.key, Readers::Group)?;
        let certified = certificates::certified(&chain, &key).map_err(|problem| match problem {
            Problem::OtherKey => {
                wrong(KEY, &self.key, format!("the key belongs to another certificate than that of {CERTIFICATE}"))
            }
            _ if problem.is_of_key() => wrong(KEY, &self.key, problem.to_string()),
            _ => wrong(CERTIFICATE, &self.certificate, problem.to_string()),
        })?;
        Ok(Certificate { certified, ends_at: certificates::first_end(&chain), flaw: certificates::flaw(&chain) })
    }
}
