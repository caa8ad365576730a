//! Limits for requests: the tables `[serve]`, `[[check]]` and `[[token]]`.

mod check;
pub mod console;
pub mod encryption;
pub mod json;
mod listen;
mod name;
mod serve;
mod stop;
pub mod stored;
pub mod tokens;
pub mod written;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use ratelimit_base::tables::{
    options,
    problem::{ConfigError, Problem, syntax},
    table::{Page, TOP, Table, Value},
};
use ratelimit_fleet::table::{self as fleet, Fleet};
use ratelimit_limiter::{ADDRESS, MEMORY, Rule};
use serde::Deserialize;
use toml::de::DeTable;

use self::{
    console::Console,
    encryption::Encryption,
    serve::{Serve, ServeOptions},
    tokens::{Token, User},
    written::Keys,
};
pub use self::{
    listen::{Listen, Listens},
    name::is_reserved,
};
use crate::usage::UsagePlace;
pub use ratelimit_client::wire::HeaderStyle;

/// Attributes that every file may use. `[serve]` can name more.
const ATTRIBUTES: [&str; 9] = [ADDRESS, "user", "key", "operation", "method", "host", "path", "service", "domain"];
/// The most rules.
pub const MOST_RULES: usize = 1_000;

/// What a file says about requests.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    /// Whether it has the table `[serve]`.
    pub has_table: bool,
    /// Where callers ask.
    pub listens: Listens,
    /// The certificate that callers see. None if connections are not encrypted.
    pub encryption: Option<Encryption>,
    /// Tokens of callers.
    pub tokens: Vec<Token>,
    /// People that a proxy has signed in.
    pub users: Vec<User>,
    /// The pages for people.
    pub console: Option<Console>,
    /// Where the usage of clients is kept.
    pub usage: Option<UsagePlace>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// The keys of each rule, by its name. Only [`parse`] fills this.
    pub keys: BTreeMap<String, Keys>,
    /// Attributes that rules may use.
    pub attributes: Vec<String>,
    /// The file where the server keeps rules that callers change.
    pub store: Option<PathBuf>,
    /// How answers tell what a client has left.
    pub headers: HeaderStyle,
    /// Whether slashes in a row are one in paths of proxies, and parameters are left out.
    pub merges_paths: bool,
    /// The fleet with which the server shares its limits. Only [`parse`] fills this.
    pub fleet: Option<Fleet>,
    /// The socket of the daemon that stops clients at the network card.
    pub stops: Option<PathBuf>,
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
    let mut requests = match DeTable::parse(text) {
        Ok(entries) => {
            let top = Table::new(&page, 0..0, entries.get_ref());
            top.expect_keys(&TOP, &[]);
            Requests { fleet: fleet::read(&top), ..of_table(&top) }
        }
        Err(error) => {
            page.wrong(error.span().unwrap_or_default(), syntax(text, &error));
            Requests::default()
        }
    };
    let problems = page.problems();
    if !problems.is_empty() {
        return Err(problems);
    }
    // Numbers that are out of range are values of these tables, but not of the library.
    requests.keys = keys(text).map_err(|error| {
        let page = Page::new(text);
        page.wrong(error.span().unwrap_or_default(), "this value is out of range: write it in quotes");
        page.problems()
    })?;
    Ok(requests)
}

/// Returns the keys of each rule of a text.
fn keys(text: &str) -> Result<BTreeMap<String, Keys>, toml::de::Error> {
    #[derive(Deserialize)]
    struct Top {
        #[serde(default)]
        check: Vec<Keys>,
    }
    let Top { check } = toml::from_str(text)?;
    let named = |mut keys: Keys| Some((keys.remove("name")?.as_str()?.to_owned(), keys));
    Ok(check.into_iter().filter_map(named).collect())
}

/// Checks the tables, and returns the number of rules.
pub fn checked(top: &Table<'_>) -> usize {
    of_table(top).rules.len()
}

/// Reads the tables from the top level of a file.
fn of_table(top: &Table<'_>) -> Requests {
    let serve = top.get("serve").and_then(Value::table);
    let has_table = serve.is_some();
    let options = serve.as_ref().and_then(|table| options::read::<ServeOptions>(table, &[]));
    let mut requests =
        Requests { attributes: ATTRIBUTES.map(str::to_owned).to_vec(), has_table, ..Requests::default() };
    requests.tokens = tokens::read(top);
    match (&serve, options) {
        (Some(table), Some(options)) => {
            let Serve { listens, encryption, attributes, store, headers, merges_paths, usage, stops } =
                serve::checked(table, options, top.get("token").is_some());
            requests.attributes.extend(attributes);
            requests = Requests { listens, encryption, store, headers, merges_paths, usage, stops, ..requests };
        }
        // Its rules have their own problems. They may use what it names.
        (Some(table), None) => {
            requests.attributes.extend(table.get("attributes").map(Value::texts).unwrap_or_default());
        }
        _ => {}
    }
    (requests.console, requests.users) = console::read(top, (&requests.listens, has_table));
    let tables = top.get("check").map(|value| value.tables("check")).unwrap_or_default();
    for table in &tables {
        let Some(rule) = check::rule(table, &requests.attributes) else { continue };
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
    let has_socket = serve.as_ref().is_some_and(|table| table.get("stops").is_some());
    stop::check(&tables, &requests.rules, has_socket, &requests.listens);
    requests
}

#[cfg(test)]
mod tests;
