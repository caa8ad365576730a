//! What stands in place of encryption in a build without the feature `tls`: a caller of an encrypted server is refused.

use ratelimit_base::stream::Stream;
use tokio::net::TcpStream;

use super::error::{CallerError, EncryptionError};

/// Authorities, which nobody can name.
#[derive(Debug, Clone)]
pub(super) enum Authority {}

impl Authority {
    /// Returns that no server can be encrypted.
    pub(super) fn of_system() -> Result<Self, CallerError> {
        Err(CallerError::WithoutTls("a server with https://".to_owned()))
    }
}

/// What would encrypt connections.
#[derive(Clone)]
pub(super) enum Encryption {}

impl Encryption {
    /// Refuses the server.
    pub(super) fn new(address: &str, _: Option<&Authority>) -> Result<Self, CallerError> {
        Err(CallerError::WithoutTls(address.to_string()))
    }

    /// Is never called.
    pub(super) async fn connect(&self, _: &str, _: TcpStream) -> Result<Box<dyn Stream>, EncryptionError> {
        match *self {}
    }
}

/// Returns that any name may stand in an address. A caller of that server is refused.
pub(super) fn can_name(_: &str) -> bool {
    true
}
