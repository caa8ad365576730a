//! Where an engine is, and who may ask it.

use std::{fmt, net::Ipv4Addr, sync::Arc, time::Duration};

use ratelimit_base::{
    certificate_end::CertificateEnd, certificates::Certificates, text::excerpt::excerpt, trust::choose_cryptography,
};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    RedisResult, TlsCertificates, TlsMode, Value,
    aio::MultiplexedConnection,
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
    parse_redis_url,
    sentinel::{SentinelClient, SentinelClientBuilder as Builder, SentinelServerType},
};
use tokio::time::{Instant, timeout};

use crate::{error::Error, primary, reason::of_url};

/// Where an engine is, and who may ask it.
#[derive(Clone)]
pub struct Address {
    servers: Vec<ConnectionInfo>,
    kind: Kind,
    /// User and password, if they are not in the URLs.
    user: Option<String>,
    password: Option<String>,
    /// If the connections are encrypted.
    certificates: Option<Certificates>,
}

/// How the servers of an engine belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The first one that answers and can write is the engine.
    Single,
    /// They are some servers of one cluster.
    Cluster,
    /// They are sentinels, which know the server with this name.
    Sentinel(String),
}

/// A connection to an engine.
#[derive(Clone)]
pub(super) enum Link {
    One {
        connection: MultiplexedConnection,
        /// Where the server is. None if there is no other one.
        server: Option<Arc<str>>,
    },
    Cluster(ClusterConnection),
}

impl Address {
    /// Parses URLs. A user and a password replace those in the URLs. Sentinels keep those of their URLs.
    ///
    /// # Errors
    ///
    /// [`Error::NoUrl`] or [`Error::Url`] if one makes no sense, or there is none.
    pub fn new(urls: &[String], kind: Kind, user: Option<String>, password: Option<String>) -> Result<Self, Error> {
        if let Some(index) = urls.iter().position(|url| parse_redis_url(url).is_none()) {
            let (number, all) = (index + 1, urls.len());
            return Err(if all == 1 {
                Error::NoUrl
            } else {
                Error::Url(format!("number {number} of {all} is not a URL"))
            });
        }
        let parse = |url: &String| {
            let info = url.as_str().into_connection_info()?;
            let mut settings = info.redis_settings().clone();
            if let (Some(user), false) = (&user, matches!(kind, Kind::Sentinel(_))) {
                settings = settings.set_username(user);
            }
            if let (Some(password), false) = (&password, matches!(kind, Kind::Sentinel(_))) {
                settings = settings.set_password(password);
            }
            // The library refuses what it was not built for.
            let info = info.set_redis_settings(settings);
            Client::open(info.clone()).map(|_| info)
        };
        let servers = urls.iter().map(parse).collect::<RedisResult<Vec<_>>>();
        let servers = servers.map_err(|error| Error::Url(of_url(&error)))?;
        let wrong = |problem: &str| Err(Error::Url(problem.to_owned()));
        let Some(first) = servers.first() else { return wrong("the list is empty") };
        if servers.iter().any(|server| matches!(server.addr(), ConnectionAddr::TcpTls { insecure: true, .. })) {
            return wrong("certificates are always checked: remove #insecure");
        }
        if let Some(host) = servers.iter().map(host).find(|host| is_no_address(host)) {
            return wrong(&format!("{} is no IPv4 address, and no name of a host", excerpt(host)));
        }
        let is_encrypted = is_encrypted(first);
        if servers.iter().any(|server| self::is_encrypted(server) != is_encrypted) {
            return wrong("either all addresses or none have rediss://");
        }
        let login = |server: &ConnectionInfo| {
            let settings = server.redis_settings();
            [settings.username(), settings.password()].map(|text| text.map(ToOwned::to_owned))
        };
        if kind != Kind::Single && servers.iter().any(|server| login(server) != login(first)) {
            return wrong("all servers of a cluster, and all sentinels, have the same user and password");
        }
        let address = Self { servers, kind, user, password, certificates: None };
        if is_encrypted { address.with(Certificates::default()) } else { Ok(address) }
    }

    /// Returns whether connections are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.certificates.is_some()
    }

    /// Returns when certificates of files end. Without encryption, there are none.
    #[must_use]
    pub fn ends(&self) -> Vec<CertificateEnd> {
        self.certificates.as_ref().map(Certificates::ends).unwrap_or_default()
    }

    /// Encrypts connections with these certificates.
    ///
    /// # Errors
    ///
    /// [`Error::Url`] if the URLs are not those of encrypted connections.
    pub fn with(self, certificates: Certificates) -> Result<Self, Error> {
        choose_cryptography();
        let of = |server: ConnectionInfo| {
            Client::build_with_tls(server, for_library(&certificates))
                .map(|client| client.get_connection_info().clone())
        };
        let servers = self.servers.into_iter().map(of).collect::<RedisResult<Vec<_>>>();
        let servers = servers.map_err(|error| Error::Url(of_url(&error)))?;
        Ok(Self { servers, certificates: Some(certificates), ..self })
    }

    fn sentinels(&self, master: &str) -> RedisResult<SentinelClient> {
        let addresses = self.servers.iter().map(|server| server.addr().clone());
        let mut client = Builder::new(addresses, master, SentinelServerType::Master)?;
        if let Some(settings) = self.servers.first().map(ConnectionInfo::redis_settings) {
            client = client.set_client_to_redis_db(settings.db());
            client = settings.username().into_iter().fold(client, Builder::set_client_to_sentinel_username);
            client = settings.password().into_iter().fold(client, Builder::set_client_to_sentinel_password);
        }
        client = self.user.iter().fold(client, Builder::set_client_to_redis_username);
        client = self.password.iter().fold(client, Builder::set_client_to_redis_password);
        if let Some(certificates) = &self.certificates {
            client = client.set_client_to_redis_tls_mode(TlsMode::Secure);
            client = client.set_client_to_redis_certificates(for_library(certificates));
        }
        client.build()
    }

    /// Connects. Names are resolved again each time.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if no server can be reached, and [`Error::Server`] if it refuses.
    pub(super) async fn connect(&self, patience: Duration) -> Result<Link, Error> {
        let config = AsyncConnectionConfig::new();
        let config = config.set_connection_timeout(Some(patience)).set_response_timeout(Some(patience));
        let config = config.set_write_backpressure_boundary(WRITTEN);
        match &self.kind {
            Kind::Single => {
                let (end, mut failures) = (Instant::now() + patience, Vec::new());
                for (server, left) in self.servers.iter().zip((1..=self.servers.len() as u32).rev()) {
                    // A server that is silent leaves time for those behind it.
                    let patience = end.saturating_duration_since(Instant::now()) / left;
                    let connection = timeout(patience, primary::connect(server, &config)).await;
                    match connection.unwrap_or(Err(Error::Silent(patience))) {
                        Ok(connection) => {
                            let server = (self.servers.len() > 1).then(|| server.addr().to_string().into());
                            return Ok(Link::One { connection, server });
                        }
                        Err(error) => failures.push((server.addr().to_string(), error)),
                    }
                }
                Err(Error::of_all(failures))
            }
            Kind::Cluster => {
                let client = ClusterClient::builder(self.servers.clone());
                let client = client.connection_timeout(patience).response_timeout(patience).retries(REDIRECTIONS);
                let [least, most] = PAUSES;
                let client = client.min_retry_wait(least).max_retry_wait(most);
                let certificates = self.certificates.as_ref().map(for_library);
                let client = certificates.into_iter().fold(client, ClusterClientBuilder::certs);
                Ok(Link::Cluster(client.build()?.get_async_connection().await?))
            }
            Kind::Sentinel(master) => {
                let client = self.sentinels(master)?.async_get_client().await?;
                let server = Some(client.get_connection_info().addr().to_string().into());
                let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Link::One { connection, server })
            }
        }
    }
}

/// Returns the host of a server, or its socket.
fn host(server: &ConnectionInfo) -> &str {
    match server.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
        _ => "",
    }
}

/// Returns whether a host looks like an IPv4 address, and is none. No name consists of digits only.
fn is_no_address(host: &str) -> bool {
    let looks_so = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    looks_so && host.parse::<Ipv4Addr>().is_err()
}

/// Returns whether the URL of a server is that of an encrypted connection.
fn is_encrypted(server: &ConnectionInfo) -> bool {
    matches!(server.addr(), ConnectionAddr::TcpTls { .. })
}

/// Bytes of calls that are written together.
const WRITTEN: usize = 1 << 16;
/// How often a call follows a cluster that sends it to another server.
const REDIRECTIONS: u32 = 3;
/// Milliseconds before it does so: the least, and the most.
const PAUSES: [u64; 2] = [20, 100];

impl Link {
    /// Returns the server of several that it leads to. None for a cluster.
    pub(super) fn server(&self) -> Option<&str> {
        if let Self::One { server, .. } = self { server.as_deref() } else { None }
    }

    /// Sends a command.
    pub(super) async fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::One { connection, .. } => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }
}

impl fmt::Display for Address {
    /// Writes hosts and ports, without passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, server) in self.servers.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { "" } else { ", " }, server.addr())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// What tells servers apart.
type Identity = (ConnectionAddr, i64, Option<String>, Option<String>);

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        let one = |info: &ConnectionInfo| -> Identity {
            let settings = info.redis_settings();
            let text = |text: Option<&str>| text.map(ToOwned::to_owned);
            (info.addr().clone(), settings.db(), text(settings.username()), text(settings.password()))
        };
        let of = |address: &Self| address.servers.iter().map(one).collect::<Vec<_>>();
        (of(self), &self.kind, &self.user, &self.password) == (of(other), &other.kind, &other.user, &other.password)
            && self.certificates == other.certificates
    }
}

/// Returns certificates as the library of the engine takes them.
fn for_library(certificates: &Certificates) -> TlsCertificates {
    let own = |(certificate, key): (&[u8], &[u8])| ClientTlsConfig {
        client_cert: certificate.to_vec(),
        client_key: key.to_vec(),
    };
    TlsCertificates {
        client_tls: certificates.own().map(own),
        root_cert: certificates.authorities().map(<[u8]>::to_vec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str, user: Option<&str>, password: Option<&str>) -> Address {
        let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
        Address::new(&[url.to_owned()], Kind::Single, owned(user), owned(password)).unwrap()
    }

    #[test]
    fn an_address_shows_no_password() {
        let address = address("redis://user:secret@10.0.0.1:6379", None, None);
        assert_eq!(format!("{address} {address:?}"), "10.0.0.1:6379 Address(10.0.0.1:6379)");
    }

    #[test]
    fn a_host_that_looks_like_an_address_is_one() {
        for good in ["10.0.0.3", "redis-1", "redis.example.", "10.example", "[::1]", "[::ffff:10.0.0.1]", "localhost"] {
            let address = Address::new(&[format!("redis://{good}:6379")], Kind::Single, None, None);
            assert!(address.is_ok(), "{good}");
        }
        for bad in ["10.0.0.300", "10.0.0", "10.0.0.1.2", "300"] {
            let error = Address::new(&[format!("redis://{bad}:6379")], Kind::Single, None, None).unwrap_err();
            assert!(
                error.to_string().ends_with(&format!("{bad} is no IPv4 address, and no name of a host")),
                "{error}"
            );
        }
    }

    #[test]
    fn another_password_is_another_address() {
        let one = address("redis://10.0.0.1:6379", Some("user"), Some("secret"));
        assert_eq!(one, address("redis://10.0.0.1", Some("user"), Some("secret")));
        assert_ne!(one, address("redis://10.0.0.1:6379", None, None));
        assert_ne!(one, address("redis://10.0.0.1:6379", Some("user"), Some("other")));
        assert_ne!(one, address("redis://10.0.0.2:6379", Some("user"), Some("secret")));
    }
}
