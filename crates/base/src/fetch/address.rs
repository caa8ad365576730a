//! Addresses of resources.

use std::{fmt, str::FromStr};

#[cfg(feature = "fetch")]
use rustls::pki_types::ServerName;
use url::{Host, Url};

/// The most bytes of an address.
const MOST: usize = 2_048;

/// The address of a resource: `https://HOST/PATH` or `http://HOST/PATH`, with an optional port and query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(Url);

/// Reason why an address is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No address, or of another kind.
    #[error("expected an address such as https://feeds.example/drop.txt")]
    Form,
    /// A name or password in the address.
    #[error("a name or password in an address ends up in messages: write a token into a file of its own")]
    Credentials,
    /// Too long.
    #[error("an address has at most {MOST} bytes")]
    Long,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.len() > MOST {
            return Err(AddressError::Long);
        }
        Self::of(Url::parse(text).map_err(|_| AddressError::Form)?)
    }
}

/// Shows the address without its query, which often has a secret.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.clone();
        shown.set_query(None);
        shown.fmt(f)
    }
}

impl Address {
    fn of(mut url: Url) -> Result<Self, AddressError> {
        if !matches!(url.scheme(), "https" | "http") || url.host().is_none() || url.port() == Some(0) {
            return Err(AddressError::Form);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::Credentials);
        }
        url.set_fragment(None);
        Ok(Self(url))
    }

    /// Returns the whole address, with its query.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Returns whether others could read or change what its server sends.
    pub fn is_open(&self) -> bool {
        !self.is_encrypted() && !self.is_loopback()
    }

    /// Returns whether the server is this host.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        }
    }
}

/// What requests need.
#[cfg(feature = "fetch")]
impl Address {
    /// Returns the address that another one leads to, which can be relative to it.
    pub(super) fn join(&self, location: &str) -> Option<Self> {
        let url = self.0.join(location).ok()?;
        Self::of(url).ok().filter(|address| address.0.as_str().len() <= MOST)
    }

    /// Returns whether another address has the same protocol, host and port.
    pub(super) fn has_origin_of(&self, other: &Self) -> bool {
        self.0.origin() == other.0.origin()
    }

    /// Returns the name that the certificate of the server must have.
    pub(super) fn server_name(&self) -> Option<ServerName<'static>> {
        Some(match self.0.host()? {
            Host::Domain(name) => ServerName::try_from(name.to_owned()).ok()?,
            Host::Ipv4(ip) => ServerName::IpAddress(ip.into()),
            Host::Ipv6(ip) => ServerName::IpAddress(ip.into()),
        })
    }

    /// Returns the host with its port, as a request names it.
    pub(super) fn authority(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Returns what a request asks its server for.
    pub(super) fn target(&self) -> String {
        let query = self.0.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", self.0.path())
    }
}
