//! Addresses where callers ask.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

/// The longest path of a socket, in bytes. Linux accepts no longer one.
const SOCKET: usize = 107;

/// The addresses where callers ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listens {
    /// By HTTP.
    pub http: Option<Listen>,
    /// By gRPC.
    pub grpc: Option<Listen>,
    /// Where metrics are read by HTTP, besides the address of callers.
    pub metrics: Option<Listen>,
}

impl Listens {
    /// Returns whether there is one for callers.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.http.is_some() || self.grpc.is_some()
    }

    /// Returns those of callers as they write them.
    #[must_use]
    pub fn shown(&self, is_encrypted: bool) -> String {
        let shown = |listen: &Option<Listen>| listen.as_ref().map(|listen| listen.shown(is_encrypted));
        match (shown(&self.http), shown(&self.grpc)) {
            (Some(http), Some(grpc)) => format!("{http}, and gRPC on {grpc},"),
            (http, grpc) => http.or_else(|| grpc.map(|grpc| format!("gRPC on {grpc}"))).unwrap_or_default(),
        }
    }
}

/// An address where callers ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address of this host.
    Tcp(SocketAddr),
}

impl Listen {
    /// Returns whether other machines can reach it, so that callers need tokens and encryption.
    #[must_use]
    pub fn is_beyond_host(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }

    /// Returns whether the system refuses to open both. All addresses of a version include each of them.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) => {
                let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
                one == other || one.port() == other.port() && one.is_ipv4() == other.is_ipv4() && is_any
            }
            _ => self == other,
        }
    }

    /// Returns it as a caller writes it.
    #[must_use]
    pub fn shown(&self, is_encrypted: bool) -> String {
        match self {
            Self::Tcp(address) if is_encrypted => format!("https://{address}"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "http://{address}"),
        }
    }
}

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return match path.as_os_str().len() {
                _ if !path.is_absolute() => Err("expected an absolute path after unix:"),
                1..=SOCKET => Ok(Self::Unix(path)),
                _ => Err("the path of a socket has at most 107 bytes"),
            };
        }
        let address = text.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
        address.map(Self::Tcp).ok_or("expected unix:/PATH or an address and a port, such as 127.0.0.1:8080")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_a_version_include_each_of_them() {
        for (one, other, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "127.0.0.1:81", false),
            ("[::]:80", "[::1]:80", true),
            // It depends on a setting of the host.
            ("[::]:80", "127.0.0.1:80", false),
            ("0.0.0.0:80", "[::1]:80", false),
            ("unix:/a", "unix:/a", true),
            ("unix:/a", "unix:/b", false),
            ("unix:/a", "127.0.0.1:80", false),
        ] {
            let [one, other] = [one, other].map(|text| text.parse::<Listen>().unwrap());
            assert_eq!([one.overlaps(&other), other.overlaps(&one)], [expected; 2], "{one} {other}");
        }
    }
}
