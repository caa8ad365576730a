//! The keys of `[fleet]` that name certificates.

use std::path::{Path, PathBuf};

use ratelimit_base::{
    certificates::{Certificates, Problem},
    files::named::{self as file, Readers},
};

use crate::address::Address;

/// The most bytes of a file. The certificates of all public authorities take about 220 KB.
const MOST: usize = 1 << 20;

const CA: &str = "ca-file";
const CERTIFICATE: &str = "certificate-file";
const KEY: &str = "key-file";

#[derive(Debug, clap::Args)]
pub(super) struct CertificateOptions {
    #[arg(long)]
    ca_file: Option<PathBuf>,
    #[arg(long)]
    certificate_file: Option<PathBuf>,
    #[arg(long)]
    key_file: Option<PathBuf>,
}

/// A key, and the problem of its value.
type Wrong = (&'static str, String);

impl CertificateOptions {
    /// Reads the files, and returns an engine whose connections use them.
    pub(super) fn apply(&self, engine: Address) -> Result<Address, Wrong> {
        let keys = [(CA, &self.ca_file), (CERTIFICATE, &self.certificate_file), (KEY, &self.key_file)];
        let Some((first, _)) = keys.into_iter().find(|(_, path)| path.is_some()) else { return Ok(engine) };
        if !engine.is_encrypted() {
            return Err((
                first,
                "the connection is not encrypted: write rediss:// in engine, or remove this key".into(),
            ));
        }
        engine.with(self.read()?).map_err(|error| (first, error.to_string()))
    }

    fn read(&self) -> Result<Certificates, Wrong> {
        let mut certificates = Certificates::default();
        if let Some(path) = &self.ca_file {
            certificates =
                certificates.trusting(bytes(CA, path, Readers::All)?).map_err(|problem| place(CA, problem))?;
        }
        match (&self.certificate_file, &self.key_file) {
            (Some(certificate), Some(key)) => {
                let certificate = bytes(CERTIFICATE, certificate, Readers::All)?;
                let key = bytes(KEY, key, Readers::Group)?;
                certificates.showing(certificate, key).map_err(|problem| place(CERTIFICATE, problem))
            }
            (Some(_), None) => Err((CERTIFICATE, "a certificate needs its key: add key-file".to_owned())),
            (None, Some(_)) => Err((KEY, "a key needs its certificate: add certificate-file".to_owned())),
            (None, None) => Ok(certificates),
        }
    }
}

/// Returns a problem with the key of its file.
fn place(of_certificates: &'static str, problem: Problem) -> Wrong {
    (if problem.is_of_key() { KEY } else { of_certificates }, problem.to_string())
}

fn bytes(key: &'static str, path: &Path, readers: Readers) -> Result<Vec<u8>, Wrong> {
    file::read(path, MOST, readers).map_err(|problem| (key, problem))
}
