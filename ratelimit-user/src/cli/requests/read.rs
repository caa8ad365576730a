//! Reads rules, and the log of their changes.

use anyhow::{Context as _, Result};
use axum::http::StatusCode;
use ratelimit_base::text::excerpt::escaped;
use ratelimit_client::caller::Server;
use ratelimit_server::config::written::{self, Keys};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::Call;
use crate::cli::print::{
    answer::Answer,
    output::{Output, table},
};

/// A rule.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// None for a rule of the server's own file.
    pub(super) version: Option<u64>,
    pub(super) rule: Keys,
}

#[derive(Debug, Deserialize)]
struct Rules {
    rules: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Log {
    changes: Vec<Value>,
}

/// What a log has about a change.
#[derive(Debug, Deserialize)]
struct Change {
    at: String,
    /// None without a fleet.
    server: Option<String>,
    token: String,
    address: Option<String>,
    action: String,
    name: String,
    version: u64,
    /// The version of the change that this one takes back.
    undoes: Option<u64>,
    old: Option<Keys>,
    new: Option<Keys>,
}

/// Returns the path of a rule in calls.
pub(super) fn path(name: &str) -> String {
    let mut path = "/v1/rules/".to_owned();
    for byte in name.bytes() {
        match byte {
            b'-' | b'_' | b'.' | b'~' => path.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => path.push(byte.into()),
            _ => path += &format!("%{byte:02X}"),
        }
    }
    path
}

/// What a server has under a name.
pub(super) enum Found {
    Rule(Row),
    /// A rule of this version that does not fit the server, which leaves it out.
    LeftOut(u64),
    Nothing,
}

/// Returns what a server has under a name.
pub(super) fn find(server: &Server, name: &str) -> Result<Found> {
    let answer = Call::get(path(name)).make(server)?;
    if answer.status == StatusCode::NOT_FOUND {
        return Ok(answer.version.map_or(Found::Nothing, Found::LeftOut));
    }
    let rule = serde_json::from_value(answer.body).context("the answer has no rule")?;
    Ok(Found::Rule(Row { name: name.to_owned(), version: answer.version, rule }))
}

pub(super) fn list(server: &Server, output: Output) -> Result<Answer> {
    let answer = Call::get("/v1/rules").make(server)?;
    let Rules { rules } = serde_json::from_value(answer.body).context("the answer has no rules")?;
    output.print(&rules, |out| {
        let cells = |row: &Row| [escaped(&row.name), version(row.version), in_words(&row.rule)];
        table(out, ["name", "version", "rule"], &rules.iter().map(cells).collect::<Vec<_>>())
    })?;
    Ok(Answer::Done)
}

pub(super) fn get(server: &Server, name: &str, output: Output) -> Result<Answer> {
    let row = match find(server, name)? {
        Found::Rule(row) => row,
        Found::LeftOut(version) => {
            anyhow::bail!("{} is left out by this server, as its log says: version {version}", escaped(name));
        }
        Found::Nothing => anyhow::bail!("there is no rule {}", escaped(name)),
    };
    output.print(&row, |out| {
        let name_shown = escaped(name);
        match row.version {
            Some(version) => writeln!(out, "# {name_shown}: version {version}")?,
            None => writeln!(out, "# {name_shown}: a rule of the file of the server")?,
        }
        write!(out, "[[check]]\n{}", written::write(name, &row.rule))
    })?;
    Ok(Answer::Done)
}

pub(super) fn log(server: &Server, limit: u16, output: Output) -> Result<Answer> {
    let answer = Call::get(format!("/v1/rules/log?limit={limit}")).make(server)?;
    let Log { changes } = serde_json::from_value(answer.body).context("the answer has no changes")?;
    output.print(&changes, |out| {
        let known = changes.iter().filter_map(|change| serde_json::from_value::<Change>(change.clone()).ok());
        let cells = |change: Change| {
            let Change { at, server, token, address, action, name, version, undoes, old, new } = change;
            let action = undoes.map_or(action.clone(), |undone| format!("{action}, an undo of version {undone}"));
            let [server, address] = [server, address].map(Option::unwrap_or_default);
            let what = differences(&old.unwrap_or_default(), &new.unwrap_or_default()).join(", ");
            [version.to_string(), at, server, token, address, action, name, what].map(|cell| escaped(&cell))
        };
        let head = ["version", "at", "server", "token", "address", "action", "name", "change"];
        table(out, head, &known.map(cells).collect::<Vec<_>>())
    })?;
    Ok(Answer::Done)
}

fn version(version: Option<u64>) -> String {
    version.map_or_else(|| "of the file".to_owned(), |version| version.to_string())
}

fn in_words(keys: &Keys) -> String {
    let each = keys.iter().map(|(key, value)| escaped(&format!("{key} = {value}")));
    each.collect::<Vec<_>>().join(", ")
}

/// Returns each key that differs, with its value before and now.
pub(super) fn differences(old: &Keys, new: &Keys) -> Vec<String> {
    let value = |keys: &Keys, key: &str| keys.get(key).map_or_else(|| "none".to_owned(), ToString::to_string);
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let differs = new.keys().filter(|key| old.get(*key) != new.get(*key));
    gone.chain(differs).map(|key| format!("{key}: {} → {}", value(old, key), value(new, key))).collect()
}
