//! Addresses of servers.

use std::{fmt, path::PathBuf, str::FromStr};

use hyper::{Uri, http::uri::Scheme};

use super::error::AddressError;

/// The longest path of a socket, in bytes. Linux accepts no longer one.
const SOCKET: usize = 107;

/// The address of a server: `unix:/PATH` or `http://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(pub(super) Place);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A host, which is a name or an address, and its port.
    Http(String, u16),
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
        let (Some(authority), true) = (uri.authority(), uri.scheme() == Some(&Scheme::HTTP)) else {
            return Err(other());
        };
        let has_more = authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some();
        let (host, port) = (authority.host(), authority.port_u16());
        match port {
            Some(port) if port != 0 && !has_more && !host.is_empty() => Ok(Self(Place::Http(host.to_owned(), port))),
            _ => Err(other()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
            Place::Http(host, port) => write!(f, "http://{host}:{port}"),
        }
    }
}

impl Address {
    /// Returns the address of a path on this server.
    pub(super) fn uri(&self, path: &'static str) -> Result<Uri, AddressError> {
        let authority = match &self.0 {
            Place::Unix(_) => "localhost".to_owned(),
            Place::Http(host, port) => format!("{host}:{port}"),
        };
        let uri = Uri::builder().scheme(Scheme::HTTP).authority(authority).path_and_query(path).build();
        uri.map_err(|_| AddressError::Form(self.to_string()))
    }
}
