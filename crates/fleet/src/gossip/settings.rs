//! Where this host listens to others, where they are, and the secret of all.

use std::{
    collections::HashSet,
    fmt,
    net::{IpAddr, SocketAddr},
};

use tokio::net::lookup_host;

/// The port of each host, unless the operator gives another one.
pub const PORT: u16 = 7947;
/// The most hosts that a file may name.
const MOST: usize = 256;
/// The most addresses of one name.
const OF_NAME: usize = 64;
/// The longest name of a host.
const NAME: usize = 253;

/// Where this host listens to others, where they are, and the secret of all.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// None is every address of the host.
    listen: Option<SocketAddr>,
    hosts: Vec<Place>,
    secret: String,
}

/// Where another host is.
#[derive(Clone, PartialEq, Eq)]
enum Place {
    Address(SocketAddr),
    Name(String, u16),
}

/// A key of the file, and what is wrong with it.
pub type Wrong = (&'static str, String);

impl Settings {
    /// Reads keys of the file.
    ///
    /// # Errors
    ///
    /// The key that makes no sense, and why.
    pub fn new(listen: Option<&str>, hosts: &[String], password: Option<String>) -> Result<Self, Wrong> {
        let listen = listen.map(|text| address(text).ok_or(("listen", LISTEN.to_owned()))).transpose()?;
        let is_local = listen.is_some_and(|listen| listen.ip().is_loopback());
        if password.is_none() && !is_local {
            let problem = "gossip needs password-file, unless listen is a loopback address: without a password, every \
                           host of the network could change shares";
            return Err(("engine", problem.to_owned()));
        }
        if hosts.len() > MOST {
            return Err(("peers", format!("expected at most {MOST} hosts")));
        }
        let hosts = hosts.iter().map(|text| place(text).ok_or_else(|| ("peers", format!("{text:?}: {HOST}"))));
        Ok(Self { listen, hosts: hosts.collect::<Result<_, _>>()?, secret: password.unwrap_or_default() })
    }

    /// Returns where to listen, and where to listen if that fails.
    pub(super) fn listen(&self) -> [SocketAddr; 2] {
        // A host without IPv6 has no socket for both versions.
        let [both, without_ipv6] = [SocketAddr::from(([0_u16; 8], PORT)), SocketAddr::from(([0_u8; 4], PORT))];
        self.listen.map_or([both, without_ipv6], |listen| [listen; 2])
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns the addresses that need no name server.
    pub(super) fn addresses(&self) -> HashSet<SocketAddr> {
        let address = |place: &Place| if let Place::Address(address) = place { Some(*address) } else { None };
        self.hosts.iter().filter_map(address).collect()
    }

    /// Returns whether there are names.
    pub(super) fn has_names(&self) -> bool {
        self.hosts.iter().any(|place| matches!(place, Place::Name(..)))
    }

    /// Returns the addresses of a name, and all others. An unknown name has none.
    pub(super) async fn resolve(&self) -> HashSet<SocketAddr> {
        let mut addresses = self.addresses();
        for place in &self.hosts {
            if let Place::Name(name, port) = place
                && let Ok(found) = lookup_host((name.as_str(), *port)).await
            {
                addresses.extend(found.take(OF_NAME));
            }
        }
        addresses
    }
}

const LISTEN: &str = "expected an address of this host, such as 10.0.0.1:7947";
const HOST: &str = "expected an address or a name, such as 10.0.0.2:7947 or web.example.org:7947";

/// Reads an address, with a port or without.
fn address(text: &str) -> Option<SocketAddr> {
    let alone = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
    text.parse().ok().or_else(alone).filter(|address| address.port() != 0)
}

fn place(text: &str) -> Option<Place> {
    if let Some(address) = address(text) {
        let is_host = !address.ip().is_unspecified() && !address.ip().is_multicast();
        return is_host.then_some(Place::Address(address));
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok().filter(|port| *port != 0)?),
        None => (text, PORT),
    };
    let is_name = (1..=NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        && name.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_name.then(|| Place::Name(name.to_owned(), port))
}

impl fmt::Display for Settings {
    /// Writes the other hosts, without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("gossip")?;
        for (number, place) in self.hosts.iter().enumerate() {
            f.write_str(if number == 0 { " with " } else { ", " })?;
            match place {
                Place::Address(address) => write!(f, "{address}")?,
                Place::Name(name, port) => write!(f, "{name}:{port}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settings({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(listen: Option<&str>, hosts: &[&str], password: Option<&str>) -> Result<Settings, Wrong> {
        let hosts: Vec<_> = hosts.iter().map(|text| (*text).to_owned()).collect();
        Settings::new(listen, &hosts, password.map(ToOwned::to_owned))
    }

    #[test]
    fn hosts_are_addresses_and_names_with_a_port_or_without() {
        let hosts = ["10.0.0.2", "10.0.0.3:1", "fd00::2", "[fd00::3]:1", "web.example.org", "web:1"];
        let settings = settings(None, &hosts, Some("secret")).unwrap();
        let expected =
            "gossip with 10.0.0.2:7947, 10.0.0.3:1, [fd00::2]:7947, [fd00::3]:1, web.example.org:7947, web:1";
        assert_eq!(format!("{settings} {settings:?}"), format!("{expected} Settings({expected})"));
        assert_eq!((settings.addresses().len(), settings.has_names()), (4, true));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for host in
            ["", ":1", "web:", "web:0", "web:port", "a b", "0.0.0.0", "[::]:1", "224.0.0.1", "10.0.0.256", "[x]:1"]
        {
            let (key, _) = settings(None, &[host], Some("secret")).unwrap_err();
            assert_eq!(key, "peers", "{host}");
        }
        assert!(settings(None, &["web"; MOST + 1], Some("secret")).is_err());
        for listen in ["web", "10.0.0.1:0", ""] {
            assert_eq!(settings(Some(listen), &[], Some("secret")).unwrap_err().0, "listen");
        }
    }

    #[test]
    fn only_a_host_that_listens_to_itself_needs_no_password() {
        assert!(settings(Some("127.0.0.1"), &[], None).is_ok());
        assert!(settings(Some("[::1]:1"), &[], None).is_ok());
        for listen in [None, Some("10.0.0.1"), Some("0.0.0.0:7947")] {
            assert_eq!(settings(listen, &[], None).unwrap_err().0, "engine");
        }
    }
}
