//! The certificate of the server, as its files have it now.

use jiff::{SignedDuration, Timestamp};
use rustls::sign::CertifiedKey;

use crate::{
    config::requests::encryption::{Certificate, Encryption},
    controller::notify::journal::{self, Level},
};

/// The time before the end of a certificate in which a warning says so.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Reads the certificate, and warns if it ends soon.
pub(super) fn read(encryption: &Encryption) -> Result<CertifiedKey, String> {
    let Certificate { certified, ends_at } = encryption.read()?;
    if let Some(warning) = ends_at.and_then(|end| warning(end, Timestamp::now())) {
        let path = encryption.certificate.display();
        journal::say(Level::Warning, &format!("tls-cert: {path}: {warning}: replace it, then send SIGHUP"));
    }
    Ok(certified)
}

fn warning(end: Timestamp, now: Timestamp) -> Option<String> {
    let left = end.duration_since(now);
    if left.is_negative() {
        return Some(format!("the certificate ended at {end}"));
    }
    (left <= SOON).then(|| format!("the certificate ends at {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_ends_within_30_days_gets_a_warning() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let of = |end: &str| warning(end.parse().unwrap(), now);
        assert_eq!(of("2030-02-01T00:00:00Z"), None);
        assert_eq!(of("2030-01-31T00:00:00Z").unwrap(), "the certificate ends at 2030-01-31T00:00:00Z");
        assert_eq!(of("2029-12-31T00:00:00Z").unwrap(), "the certificate ended at 2029-12-31T00:00:00Z");
    }
}
