//! Changes rules.

use std::io::{self, Write};

use anyhow::{Result, anyhow, bail};
use axum::http::{
    HeaderName, HeaderValue, Method, StatusCode,
    header::{IF_MATCH, IF_NONE_MATCH},
};
use ratelimit_base::text::excerpt::escaped;
use ratelimit_client::caller::Server;
use ratelimit_server::config::written::Keys;
use serde::Serialize;

use super::{
    call::{Answered, Call},
    keys::RuleOptions,
    read::{Found, Row, differences, find, path},
};
use crate::cli::print::{answer::Answer, output::Output};

/// The result of `set`.
#[derive(Debug, Serialize)]
struct Set<'a> {
    name: &'a str,
    /// `create`, `update`, `unchanged`, or `check` with --dry-run.
    action: &'static str,
    old_version: Option<u64>,
    /// None with --dry-run.
    version: Option<u64>,
    old: Option<&'a Keys>,
    new: &'a Keys,
}

/// The result of `del`.
#[derive(Debug, Serialize)]
struct Deleted<'a> {
    name: &'a str,
    /// The version that was deleted. None if there was no such rule.
    deleted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

pub(super) fn set(
    server: &Server,
    name: &str,
    options: &RuleOptions,
    pinned: Option<u64>,
    is_dry: bool,
    output: Output,
) -> Result<Answer> {
    let (before, left_out) = match find(server, name)? {
        Found::Rule(row) => (Some(row), None),
        Found::LeftOut(version) => (None, Some(version)),
        Found::Nothing => (None, None),
    };
    let (old_version, old) = before.as_ref().map(|row| (row.version, &row.rule)).unzip();
    let old_version = old_version.flatten().or(left_out);
    let keys = &options.keys(name, old)?;
    let body = serde_json::to_string(keys)?;
    let made = |call: Call<'_>| {
        let answer = call.make(server).and_then(found);
        answer.map_err(|error| match options.to_remove(&error.to_string(), old) {
            Some(key) => anyhow!("{error} (`--unset {key}` removes it)"),
            None => error,
        })
    };
    let done = |action, version| Set { name, action, old_version, version, old, new: keys };
    if is_dry {
        let path = format!("{}?dry-run=true", path(name));
        made(Call { method: Method::PUT, path, condition: None, body: &body })?;
        output.print(&done("check", None), |out| {
            writeln!(out, "{name}: the rule can be set; nothing is changed")?;
            changes(out, old, keys)
        })?;
        return Ok(Answer::Unchanged);
    }
    let expected = pinned.or(old_version).filter(|version| *version != 0);
    if old == Some(keys) && old_version.is_some() && expected == old_version {
        output
            .print(&done("unchanged", old_version), |out| writeln!(out, "{name}: the rule has these keys already"))?;
        return Ok(Answer::Unchanged);
    }
    let condition = Some(condition(expected));
    let answer = made(Call { method: Method::PUT, path: path(name), condition, body: &body })?;
    let action = if expected.is_some() { "update" } else { "create" };
    output.print(&done(action, answer.version), |out| {
        let version = |version: Option<u64>| version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        writeln!(out, "{name}: version {} → {}", version(old_version), version(answer.version))?;
        changes(out, old, keys)
    })?;
    Ok(Answer::Done)
}

/// Writes what a rule becomes.
fn changes(out: &mut dyn Write, old: Option<&Keys>, new: &Keys) -> io::Result<()> {
    let nothing = Keys::new();
    differences(old.unwrap_or(&nothing), new).iter().try_for_each(|line| writeln!(out, "  {}", escaped(line)))
}

pub(super) fn delete(server: &Server, name: &str, pinned: Option<u64>, output: Output) -> Result<Answer> {
    let absent = || {
        let message = format!("there is no rule {}", escaped(name));
        let deleted = Deleted { name, deleted: None, message: Some(message.clone()) };
        output.print(&deleted, |out| writeln!(out, "{message}"))?;
        Ok(Answer::Negative)
    };
    let version = match (pinned, find(server, name)?) {
        (_, Found::Nothing) => return absent(),
        (Some(version), _) | (None, Found::LeftOut(version) | Found::Rule(Row { version: Some(version), .. })) => {
            version
        }
        (None, Found::Rule(_)) => bail!("{} is a rule of the file of the server: delete it there", escaped(name)),
    };
    let condition = Some(condition(Some(version)));
    let answer = Call { method: Method::DELETE, path: path(name), condition, body: "" }.make(server)?;
    if answer.status == StatusCode::NOT_FOUND {
        return absent();
    }
    let deleted = Deleted { name, deleted: Some(version), message: None };
    output.print(&deleted, |out| writeln!(out, "{name}: version {version} is deleted"))?;
    Ok(Answer::Done)
}

/// Returns the condition of a change: the version that it replaces, or none for a new rule.
fn condition(version: Option<u64>) -> (HeaderName, HeaderValue) {
    let any = (IF_NONE_MATCH, HeaderValue::from_static("*"));
    let Some(version) = version else { return any };
    HeaderValue::from_str(&format!("\"{version}\"")).map_or(any, |version| (IF_MATCH, version))
}

/// Returns the answer about a rule that still exists.
fn found(answer: Answered) -> Result<Answered> {
    let is_found = answer.status != StatusCode::NOT_FOUND;
    is_found.then_some(answer).ok_or_else(|| anyhow!("the rule was deleted meanwhile"))
}
