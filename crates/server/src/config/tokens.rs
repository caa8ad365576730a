//! Tokens of callers: the tables `[[token]]`.

use std::{fmt, str::FromStr};

use ratelimit_base::tables::{options, table::Table};

use super::name::Name;

/// The most tokens. Each call with a token is compared with all of them.
const MOST: usize = 256;
/// The hash of an empty text.
const EMPTY: Hash = Hash([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

/// What a token allows. The file has only its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its name, for logs.
    pub name: String,
    /// The SHA-256 of its text.
    pub hash: [u8; 32],
    /// What its callers may do.
    pub scopes: Vec<Scope>,
}

/// One thing that callers with a token may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Ask whether requests may go on.
    Check,
    /// Read the metrics.
    Metrics,
    /// Read all rules, and the log of their changes.
    ReadRules,
    /// Read and change rules.
    Rules(Pattern),
    /// Read what the daemon shows of packets.
    Packets,
    /// Change rules for packets, and read what the daemon shows.
    ChangePackets,
}

/// A person that a proxy has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name in the header of the proxy.
    pub name: String,
    /// What the person may do.
    pub scopes: Vec<Scope>,
}

/// Names of rules: one, or all with the same beginning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    beginning: String,
    is_whole: bool,
}

impl Pattern {
    /// Returns whether a name matches.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        if self.is_whole { name == self.beginning } else { name.starts_with(&self.beginning) }
    }

    /// Returns whether all names match.
    #[must_use]
    pub fn has_all(&self) -> bool {
        self.beginning.is_empty() && !self.is_whole
    }

    /// Returns what is larger for the narrower one of two that match a name.
    #[must_use]
    pub fn narrowness(&self) -> (bool, usize) {
        (self.is_whole, self.beginning.len())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.beginning, if self.is_whole { "" } else { "*" })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check => f.write_str("check"),
            Self::Metrics => f.write_str("metrics"),
            Self::ReadRules => f.write_str("rules:read"),
            Self::Packets => f.write_str("packets:read"),
            Self::ChangePackets => f.write_str("packets:write"),
            Self::Rules(pattern) => write!(f, "rules:{pattern}"),
        }
    }
}

impl FromStr for Scope {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected check, metrics, packets:read, packets:write, rules:read, or rules: and the name of a \
                                rule, which may end in *";
        let pattern = match text {
            "check" => return Ok(Self::Check),
            "metrics" => return Ok(Self::Metrics),
            "rules:read" => return Ok(Self::ReadRules),
            "packets:read" => return Ok(Self::Packets),
            "packets:write" => return Ok(Self::ChangePackets),
            other => other.strip_prefix("rules:").ok_or(EXPECTED)?,
        };
        let (beginning, is_whole) = pattern.strip_suffix('*').map_or((pattern, true), |beginning| (beginning, false));
        let is_all = beginning.is_empty() && !is_whole;
        if !is_all {
            beginning.parse::<Name>().map_err(|_| EXPECTED)?;
        }
        Ok(Self::Rules(Pattern { beginning: beginning.to_owned(), is_whole }))
    }
}

#[derive(Debug, clap::Args)]
struct TokenOptions {
    #[arg(long)]
    name: Name,
    #[arg(long)]
    sha256: Hash,
    #[arg(long, required = true)]
    scope: Vec<Scope>,
}

/// A hash in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hash([u8; 32]);

impl FromStr for Hash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected the SHA-256 of the token: 64 hexadecimal digits";
        let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
        if text.len() != 64 || digits.len() != 64 {
            return Err(EXPECTED);
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8);
        }
        if Self(hash) == EMPTY { Err("this is the hash of an empty text: hash the token") } else { Ok(Self(hash)) }
    }
}

/// Reads the tokens from the top level of a file.
pub(super) fn read(top: &Table<'_>) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for table in top.get("token").map(|value| value.tables("token")).unwrap_or_default() {
        let Some(TokenOptions { name: Name(name), sha256: Hash(hash), scope }) = options::read(&table, &[]) else {
            continue;
        };
        if tokens.iter().any(|other| other.name == name) {
            table.wrong(format!("{name} is there twice: choose another name"));
        } else if let Some(other) = tokens.iter().find(|other| other.hash == hash) {
            table.wrong(format!("this is the token of {} too: make another one", other.name));
        } else if tokens.len() == MOST {
            table.wrong(format!("at most {MOST} tokens are possible"));
        } else {
            tokens.push(Token { name, hash, scopes: scope });
        }
    }
    tokens
}
