//! The table `[crowdsec]`: the local API whose decisions the daemon puts in force.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use ratelimit_base::{
    fetch::{Address, AddressError, Trust},
    files::{
        named::{self as file, Readers},
        secret,
    },
    tables::{
        options,
        table::{Table, Value},
    },
    text::units,
};

use crate::crowdsec::Question;

/// The shortest and the longest time between two questions.
const TIMES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);
/// The length of a key. CrowdSec makes them with 32 to 43 characters, and operators can choose others.
const KEY: std::ops::RangeInclusive<usize> = 1..=256;
/// The most bytes of a file with authorities.
const MOST: usize = 1 << 20;

/// The local API, and how the daemon asks it.
#[derive(Debug, Clone)]
pub struct CrowdSec {
    api: Api,
    pub key: Key,
    pub every: Duration,
    pub trust: Trust,
    /// The authorities as the file has them.
    ca: Option<Vec<u8>>,
}

impl PartialEq for CrowdSec {
    fn eq(&self, other: &Self) -> bool {
        let parts = |table: &Self| (table.api.clone(), table.key.clone(), table.every, table.ca.clone());
        parts(self) == parts(other)
    }
}

impl CrowdSec {
    /// Returns the address of the API, for messages.
    pub fn url(&self) -> String {
        self.api.url.clone()
    }

    /// Returns the address of a question.
    pub fn question(&self, question: Question) -> &Address {
        match question {
            Question::All => &self.api.all,
            Question::Changes => &self.api.changes,
        }
    }
}

/// The address of the API, and those of its questions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Api {
    url: String,
    all: Address,
    changes: Address,
}

impl FromStr for Api {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected an address such as http://127.0.0.1:8080 or https://crowdsec.example:8080";
        let url = text.trim_end_matches('/');
        if url.contains(['?', '#']) {
            return Err(EXPECTED.to_owned());
        }
        // By default, the API leaves out decisions about a source that has a longer one, and does not tell of their ends.
        let question = |is_first: bool| {
            let address = format!("{url}/v1/decisions/stream?startup={is_first}&dedup=false").parse();
            address.map_err(|error| match error {
                AddressError::Form => EXPECTED.to_owned(),
                other => other.to_string(),
            })
        };
        Ok(Self { url: url.to_owned(), all: question(true)?, changes: question(false)? })
    }
}

/// A key that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Returns its text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[derive(Debug, clap::Args)]
struct CrowdSecOptions {
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: Api,
    #[arg(long)]
    key_file: PathBuf,
    #[arg(long, default_value = "10s", value_parser = time)]
    every: Duration,
    #[arg(long)]
    ca_file: Option<PathBuf>,
}

/// Reads the table, and the files that it names.
pub(in crate::config) fn read(top: &Table<'_>) -> Option<CrowdSec> {
    let table = top.get("crowdsec").and_then(Value::table)?;
    let CrowdSecOptions { url: api, key_file, every, ca_file } = options::read(&table, &[])?;
    let wrong = |key: &str, problem: String| {
        if let Some(value) = table.get(key) {
            value.wrong(problem);
        }
    };
    let key = secret::read(&key_file, KEY).map(Key).map_err(|problem| wrong("key-file", problem));
    if api.all.is_open() {
        wrong("url", "the key would be sent without encryption: write https://, or an address of this host".to_owned());
    }
    if !api.all.is_encrypted() && ca_file.is_some() {
        wrong("ca-file", "the connection is not encrypted: write https:// in url, or remove this key".to_owned());
    }
    let ca = ca_file.map(|path| file::read(&path, MOST, Readers::All)).transpose();
    let ca = ca.map_err(|problem| wrong("ca-file", problem)).ok()?;
    let trust = ca.as_deref().map(Trust::of_pem).transpose();
    let trust = trust.map_err(|problem| wrong("ca-file", problem.to_string())).ok()?.unwrap_or_default();
    Some(CrowdSec { api, key: key.ok()?, every, trust, ca })
}

fn time(text: &str) -> Result<Duration, String> {
    let time = units::duration(text).map_err(|error| error.to_string())?;
    if TIMES.contains(&time) { Ok(time) } else { Err("expected a time from 1s to 1h".to_owned()) }
}
