//! Limits for requests: the tables `[serve]` and `[[check]]`.

use std::{
    fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::ValueEnum;
use toml::de::DeTable;

use super::{
    options,
    problem::{ConfigError, Problem},
    table::{Page, Table, Value, nearest},
};
use crate::{
    check::{ADDRESS, Algorithm, Limit, LimitError, MEMORY, Rule, Throttle},
    limit::excess,
    settings::Switch,
    text::request_rate::RequestRate,
    usage::{UsageFile, UsageOptions},
};

/// Attributes that every file may use. `[serve]` can name more.
const ATTRIBUTES: [&str; 8] = [ADDRESS, "user", "key", "operation", "method", "host", "path", "service"];
/// The most rules.
const MOST_RULES: usize = 1_000;
/// The longest name of a rule or an attribute, in bytes.
const NAME: usize = 64;
/// The longest path of a socket, in bytes. Linux accepts no longer one.
const SOCKET: usize = 107;
/// Keys of a rule that are no options.
const OTHERS: [&str; 1] = ["match"];

/// What a file says about requests.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    /// Where callers ask by HTTP.
    pub http: Option<Listen>,
    /// Where the usage of clients is kept.
    pub usage: Option<UsageFile>,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// An address where callers ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address of this host that no other machine can reach.
    Local(SocketAddr),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Local(address) => write!(f, "http://{address}"),
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
        match text.parse::<SocketAddr>() {
            Ok(address) if !address.ip().is_loopback() => {
                Err("other machines could reach this address: expected a local one, such as 127.0.0.1:8080")
            }
            Ok(address) if address.port() != 0 => Ok(Self::Local(address)),
            _ => Err("expected unix:/PATH or an address and a port, such as 127.0.0.1:8080"),
        }
    }
}

#[derive(Debug, clap::Args)]
struct ServeOptions {
    #[arg(long)]
    http: Option<Listen>,
    #[arg(long)]
    attributes: Vec<Name>,
    #[command(flatten)]
    usage: UsageOptions,
}

#[derive(Debug, clap::Args)]
struct CheckOptions {
    #[arg(long)]
    name: Name,
    #[arg(long)]
    key: Vec<String>,
    #[arg(long, required = true)]
    limits: Vec<RequestRate>,
    #[arg(long, value_enum, default_value = "token-bucket")]
    algorithm: AlgorithmName,
    #[arg(long)]
    burst: Option<u64>,
    #[arg(long, default_value = "hard")]
    throttle: excess::Throttle,
    #[arg(long, value_enum, default_value = "off")]
    shadow: Switch,
    #[arg(long, default_value = "64", value_parser = clap::value_parser!(u8).range(1..=128))]
    ipv6_prefix: u8,
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=16_777_216))]
    clients: Option<u32>,
}

/// A name of a rule or an attribute.
#[derive(Debug, Clone)]
struct Name(String);

impl FromStr for Name {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Headers carry attributes, and do not tell large letters from small ones.
        let is_good =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
        ((1..=NAME).contains(&text.len()) && text.bytes().all(is_good))
            .then(|| Self(text.to_owned()))
            .ok_or("expected 1 to 64 small letters, digits, `-`, `_` and `.`")
    }
}

/// The algorithms by their names in a file.
#[derive(Debug, Clone, Copy)]
struct AlgorithmName(Algorithm);

impl ValueEnum for AlgorithmName {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [AlgorithmName; Algorithm::ALL.len()] = {
            let mut all = [AlgorithmName(Algorithm::TokenBucket); Algorithm::ALL.len()];
            let mut number = 0;
            while number < all.len() {
                all[number] = AlgorithmName(Algorithm::ALL[number]);
                number += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()))
    }
}

/// Reads what a file says about requests, and nothing else of it.
///
/// # Errors
///
/// Fails with all problems of these tables.
pub fn read(path: &Path) -> Result<Requests, ConfigError> {
    let text = fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })?;
    parse(&text).map_err(|problems| ConfigError::Wrong { path: path.to_owned(), problems })
}

/// Reads the text of a file.
///
/// # Errors
///
/// Fails with all problems of these tables. Of errors of syntax, it is only the first.
pub fn parse(text: &str) -> Result<Requests, Vec<Problem>> {
    let page = Page::new(text);
    let requests = match DeTable::parse(text) {
        Ok(entries) => of_table(&Table::new(&page, 0..0, entries.get_ref())),
        Err(error) => {
            page.wrong(error.span().unwrap_or_default(), error.message());
            Requests::default()
        }
    };
    let problems = page.problems();
    if problems.is_empty() { Ok(requests) } else { Err(problems) }
}

/// Reads the tables from the top level of a file.
pub(super) fn of_table(top: &Table<'_>) -> Requests {
    let serve = top.get("serve").and_then(Value::table);
    let options = serve.as_ref().and_then(|table| options::read::<ServeOptions>(table, &[]));
    let mut requests = Requests::default();
    let mut attributes: Vec<String> = ATTRIBUTES.map(str::to_owned).to_vec();
    if let Some(options) = options {
        requests.http = options.http;
        requests.usage = options.usage.file();
        attributes.extend(options.attributes.into_iter().map(|Name(name)| name));
    } else if serve.is_some() {
        // Rules may use attributes that are not known now.
        return requests;
    }
    let tables = top.get("check").map(Value::tables).unwrap_or_default();
    for table in &tables {
        let Some(rule) = rule(table, &attributes) else { continue };
        // All rules of a file together have as much memory as one.
        let rule = rule.with_memory(MEMORY / tables.len());
        if requests.rules.iter().any(|other| other.name() == rule.name()) {
            table.wrong(format!("{} is there twice: choose another name", rule.name()));
        } else if requests.rules.len() == MOST_RULES {
            table.wrong(format!("at most {MOST_RULES} rules for requests are possible"));
        } else {
            requests.rules.push(rule);
        }
    }
    requests
}

fn rule(table: &Table<'_>, attributes: &[String]) -> Option<Rule> {
    let options = options::read::<CheckOptions>(table, &OTHERS);
    let values = values(table, attributes);
    let CheckOptions { name, key, limits, algorithm, burst, throttle, shadow, ipv6_prefix, clients } = options?;
    let unknown = |name: &String| !attributes.contains(name);
    if let (Some(name), Some(value)) = (key.iter().find(|name| unknown(name)), table.get("key")) {
        value.wrong(unknown_attribute(name, attributes));
        return None;
    }
    let (Name(name), AlgorithmName(algorithm), values) = (name, algorithm, values?);
    let wrong = |key: &str, message: String| {
        table.get(key).map_or_else(|| table.wrong(&message), |value| value.wrong(&message));
    };
    if burst.is_some() && limits.len() > 1 {
        wrong("burst", "several limits have different bursts: remove it, or write two rules".to_owned());
        return None;
    }
    let mut all = Vec::new();
    for RequestRate(rate) in limits {
        match Limit::new(rate, burst, algorithm) {
            Ok(limit) => all.push(limit),
            Err(error) => {
                let is_of_burst =
                    matches!(error, LimitError::NoBurst | LimitError::Burst(_) | LimitError::BurstOfWindow(_));
                wrong(if is_of_burst { "burst" } else { "limits" }, format!("{}: {error}", RequestRate(rate)));
                return None;
            }
        }
    }
    let rule = Rule::new(name, all).map_err(|error| wrong("limits", error.to_string())).ok()?;
    let throttle = match throttle {
        excess::Throttle::Hard => Throttle::Hard,
        excess::Throttle::Soft(percent) => Throttle::Soft(percent),
        excess::Throttle::Elastic => {
            wrong("throttle", "the server does not know its load: expected hard, or soft=10%".to_owned());
            return None;
        }
    };
    let rule = rule.with_throttle(throttle).map_err(|error| wrong("throttle", error.to_string())).ok()?;
    let rule = values.into_iter().fold(rule, |rule, (name, values)| rule.with_values(name, values));
    let rule = rule.by(key).in_shadow(shadow == Switch::On).with_ipv6_prefix(ipv6_prefix);
    Some(match clients {
        Some(clients) => rule.with_clients(clients as usize),
        None => rule,
    })
}

/// Reads the key `match`: one value or a list for each attribute.
fn values(table: &Table<'_>, attributes: &[String]) -> Option<Vec<(String, Vec<String>)>> {
    let Some(table) = table.get("match") else { return Some(Vec::new()) };
    let mut all = Some(Vec::new());
    for (name, value) in table.table()?.each() {
        let text: &str = name.get_ref();
        if !attributes.iter().any(|known| known == text) {
            value.wrong(unknown_attribute(text, attributes));
            all = None;
            continue;
        }
        match (value.words(), &mut all) {
            (Some(words), _) if words.is_empty() => {
                value.wrong("the list is empty: add a value, or remove this attribute");
                all = None;
            }
            (Some(words), Some(all)) => all.push((text.to_owned(), words)),
            _ => all = None,
        }
    }
    all
}

fn unknown_attribute(name: &str, attributes: &[String]) -> String {
    match nearest(name, attributes.iter().map(String::as_str)) {
        Some(nearest) => format!("unknown attribute: did you mean {nearest}?"),
        None => {
            format!("unknown attribute: expected {}, or one that `attributes` in [serve] names", attributes.join(", "))
        }
    }
}
