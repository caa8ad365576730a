//! When certificates end.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// When a file with certificates is worth nothing any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateEnd {
    /// The key of the table `[fleet]` that names the file.
    pub key: String,
    /// When.
    pub ends_at: Timestamp,
}
