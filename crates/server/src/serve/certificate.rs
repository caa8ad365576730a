//! The certificate of the server, as its files have it now.

use jiff::{SignedDuration, Timestamp};
use ratelimit_base::notify::journal::{self, Level};
use rustls::sign::CertifiedKey;

use crate::config::encryption::{Certificate, Encryption};

/// The time before the end of a certificate in which a warning says so.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Reads the certificate, and logs why clients refuse it now or soon.
pub(super) fn read(encryption: &Encryption) -> Result<CertifiedKey, String> {
    let certificate = encryption.read()?;
    for warning in warnings(encryption, &certificate) {
        journal::say(Level::Warning, &format!("{warning}, then send SIGHUP"));
    }
    Ok(certificate.certified)
}

/// Returns why clients refuse the certificate now or soon.
///
/// # Errors
///
/// Fails if the server cannot use the certificate.
pub fn check(encryption: &Encryption) -> Result<Vec<String>, String> {
    encryption.read().map(|certificate| warnings(encryption, &certificate))
}

fn warnings(encryption: &Encryption, Certificate { ends_at, flaw, .. }: &Certificate) -> Vec<String> {
    let end = ends_at.and_then(|end| warning(end, Timestamp::now()));
    let warnings = end.into_iter().chain(flaw.map(|flaw| flaw.to_string()));
    warnings.map(|warning| format!("tls-cert: {}: {warning}", encryption.certificate.display())).collect()
}

fn warning(end: Timestamp, now: Timestamp) -> Option<String> {
    let left = end.duration_since(now);
    if left.is_negative() {
        return Some(format!("the certificate ended at {end}: replace it"));
    }
    (left <= SOON).then(|| format!("the certificate ends at {end}: replace it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_ends_within_30_days_gets_a_warning() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let of = |end: &str| warning(end.parse().unwrap(), now);
        assert_eq!(of("2030-02-01T00:00:00Z"), None);
        assert_eq!(of("2030-01-31T00:00:00Z").unwrap(), "the certificate ends at 2030-01-31T00:00:00Z: replace it");
        assert_eq!(of("2029-12-31T00:00:00Z").unwrap(), "the certificate ended at 2029-12-31T00:00:00Z: replace it");
    }
}
