//! Which server to call, and with which token.

use std::{env, fs, path::PathBuf, str::FromStr};

use anyhow::{Context as _, Result, bail};
use axum::http::{HeaderValue, Uri};

/// The environment variable with a token.
const TOKEN: &str = "RATELIMIT_TOKEN";

#[derive(Debug, clap::Args)]
pub(crate) struct ServerOptions {
    /// Server: unix:/PATH, https://HOST:PORT, or http://ADDRESS:PORT on this host
    #[arg(long, value_name = "URL", env = "RATELIMIT_SERVER")]
    server: Address,
    /// File with the token. Without this option, the environment variable RATELIMIT_TOKEN has it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the authority of the server's certificate, as PEM. Without this option, it is one that the system trusts
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// An address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A name or an address, with its port.
    Tcp { host: String, port: u16, is_encrypted: bool },
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected unix:/PATH, https://HOST[:PORT] or http://127.0.0.1[:PORT]";
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() {
                Ok(Self::Unix(path))
            } else {
                Err("expected an absolute path after unix:")
            };
        }
        let url: Uri = text.parse().map_err(|_| EXPECTED)?;
        let (default, is_encrypted) = match url.scheme_str() {
            Some("https") => (443, true),
            Some("http") => (80, false),
            _ => return Err(EXPECTED),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() {
            return Err("expected no path behind the host");
        }
        let host = url.host().filter(|host| !host.is_empty()).ok_or(EXPECTED)?.trim_matches(['[', ']']).to_owned();
        let is_local = host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        if !is_encrypted && !is_local {
            return Err("the connection is not encrypted, so others could read the token: use https://");
        }
        Ok(Self::Tcp { host, port: url.port_u16().unwrap_or(default), is_encrypted })
    }
}

/// A server, and what a call needs.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: Address,
    /// The header with the token. None without a token.
    pub(super) token: Option<HeaderValue>,
    /// The authority of its certificate, as PEM. None for those that the system trusts.
    pub(super) authority: Option<Vec<u8>>,
}

impl ServerOptions {
    /// Reads the files that the options name.
    pub(super) fn open(&self) -> Result<Server> {
        let token = match &self.token_file {
            Some(path) => {
                Some(fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?)
            }
            None => env::var(TOKEN).ok(),
        };
        let token = token.map(|token| header(token.trim())).transpose()?;
        if self.ca.is_some() && !matches!(self.server, Address::Tcp { is_encrypted: true, .. }) {
            bail!("--ca: the connection is not encrypted: use https://, or remove this option");
        }
        let read = |path: &PathBuf| fs::read(path).with_context(|| format!("{}: cannot be read", path.display()));
        Ok(Server { address: self.server.clone(), token, authority: self.ca.as_ref().map(read).transpose()? })
    }
}

fn header(token: &str) -> Result<HeaderValue> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!("the token is no line of letters, digits and punctuation marks: see --token-file and {TOKEN}");
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_over_no_network_without_encryption() {
        let tcp = |host: &str, port, is_encrypted| Address::Tcp { host: host.to_owned(), port, is_encrypted };
        for (text, expected) in [
            ("unix:/run/check.sock", Address::Unix("/run/check.sock".into())),
            ("https://limits.example", tcp("limits.example", 443, true)),
            ("https://192.0.2.1:8443/", tcp("192.0.2.1", 8443, true)),
            ("http://localhost:8080", tcp("localhost", 8080, false)),
            ("http://[::1]:8080", tcp("::1", 8080, false)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("http://192.0.2.1:8080", "use https://"),
            ("http://localhost.example", "use https://"),
            ("unix:check.sock", "absolute path"),
            ("https://limits.example/v1", "no path"),
            ("ftp://limits.example", "expected unix:/PATH"),
            ("limits.example:443", "expected unix:/PATH"),
            ("", "expected unix:/PATH"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_token_is_one_word_and_is_not_printed() {
        let token = header("secret").unwrap();
        assert_eq!(token, "Bearer secret");
        assert!(!format!("{token:?}").contains("secret"));
        for text in ["", "two words", "é", "a\nb"] {
            assert!(header(text).is_err(), "{text}");
        }
    }
}
