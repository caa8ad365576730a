//! Addresses of servers.

use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr};

use hyper::{Uri, http::uri::Scheme};

use super::{encryption, error::AddressError};

/// The longest path of a socket, in bytes. Linux accepts no longer one.
const SOCKET: usize = 107;

/// The address of a server: `unix:/PATH`, `https://HOST:PORT` or `http://HOST:PORT`. Without a port, it is 443 or 80.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(pub(super) Place);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A host, which is a name or an address, and its port.
    Tcp { host: String, port: u16, is_encrypted: bool },
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            let fits = path.is_absolute() && path.as_os_str().len() <= SOCKET;
            return if fits { Ok(Self(Place::Unix(path))) } else { Err(AddressError::Path(text.to_owned())) };
        }
        let other = || AddressError::Form(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| other())?;
        let authority = uri.authority().ok_or_else(other)?;
        let (usual, is_encrypted) = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => (443, true),
            Some(scheme) if *scheme == Scheme::HTTP => (80, false),
            _ => return Err(other()),
        };
        // What is around the host is at most a port.
        let rest = authority.as_str().strip_prefix(authority.host()).ok_or_else(other)?;
        let port = if rest.is_empty() { usual } else { authority.port_u16().ok_or_else(other)? };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || port == 0 || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(other());
        }
        if is_encrypted && !encryption::can_name(&host) {
            return Err(other());
        }
        Ok(Self(Place::Tcp { host, port, is_encrypted }))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
            Place::Tcp { is_encrypted: true, .. } => write!(f, "https://{}", self.authority()),
            Place::Tcp { .. } => write!(f, "http://{}", self.authority()),
        }
    }
}

impl Address {
    /// Returns whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.0, Place::Tcp { is_encrypted: true, .. })
    }

    /// Returns whether nobody on a network can read what is sent there.
    pub fn is_private(&self) -> bool {
        match &self.0 {
            Place::Tcp { host, is_encrypted: false, .. } => {
                host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
            _ => true,
        }
    }

    /// Returns the host and the port, as calls name them.
    pub fn authority(&self) -> String {
        match &self.0 {
            Place::Unix(_) => "localhost".to_owned(),
            Place::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Place::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }

    /// Returns the address of a path on this server.
    pub(super) fn uri(&self, path: &'static str) -> Result<Uri, AddressError> {
        let uri = Uri::builder().scheme(Scheme::HTTP).authority(self.authority()).path_and_query(path).build();
        uri.map_err(|_| AddressError::Form(self.to_string()))
    }
}
