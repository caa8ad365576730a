//! The table `[metrics]`.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use ratelimit_base::{
    files::secret,
    tables::{
        options,
        table::{Table, Value},
    },
};

/// The largest number of named sources. Each makes several time series.
const MOST_SOURCES: i64 = 1_000;

/// The length of a token. A shorter one could be guessed.
const TOKEN: std::ops::RangeInclusive<usize> = 16..=4_096;

/// The metrics that the daemon serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The address that serves them, besides the socket in the daemon's folder.
    pub listen: Option<Listen>,
    /// The number of sources with metrics of their own.
    pub sources: usize,
}

/// An address that serves metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// A local address with its port.
    pub address: SocketAddr,
    /// The token that a request must have. An address that other machines can reach always has one.
    pub token: Option<Token>,
}

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Returns its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[derive(Debug, clap::Args)]
struct MetricsOptions {
    #[arg(long)]
    listen: Option<Address>,
    #[arg(long)]
    token_file: Option<PathBuf>,
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=MOST_SOURCES))]
    sources: u16,
}

/// An address with a fixed port.
#[derive(Debug, Clone, Copy)]
struct Address(SocketAddr);

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = text.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
        address.map(Self).ok_or("expected an address and a port, such as 127.0.0.1:9464 or [::1]:9464")
    }
}

/// Reads the table, and the token file that it names.
pub(in crate::config) fn read(top: &Table<'_>) -> Metrics {
    let Some(table) = top.get("metrics").and_then(Value::table) else { return Metrics::default() };
    let Some(options) = options::read::<MetricsOptions>(&table, &[]) else { return Metrics::default() };
    let wrong = |key: &str, message: String| {
        if let Some(value) = table.get(key) {
            value.wrong(message);
        }
    };
    let token = options.token_file.and_then(|path| {
        let token = secret::read(&path, TOKEN).map(Token);
        token.map_err(|problem| wrong("token-file", problem)).ok()
    });
    match options.listen {
        Some(Address(address)) if !address.ip().is_loopback() && table.get("token-file").is_none() => wrong(
            "listen",
            "other machines can reach this address: add token-file, or listen on 127.0.0.1 or [::1]".to_owned(),
        ),
        None if table.get("token-file").is_some() => {
            wrong("token-file", "the token is used for listen only: add listen, or remove token-file".to_owned());
        }
        _ => {}
    }
    let listen = options.listen.map(|Address(address)| Listen { address, token });
    Metrics { listen, sources: options.sources.into() }
}
