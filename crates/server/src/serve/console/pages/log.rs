//! The log of changes, as the visitor may read it.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use maud::html;
use serde_json::Value;

use super::rules::search_form;
use crate::{
    config::{json, written::Keys},
    serve::{
        access::Need,
        console::{
            parts::{
                difference::difference,
                page::{answer, moment, page, part, problem},
            },
            places::Work,
            state::{Call, Console},
        },
        rules::{Book, RuleError},
    },
};

/// The changes that are read.
pub(super) const MOST: usize = 1_000;

/// One change.
pub(super) struct Logged {
    pub(super) name: String,
    pub(super) action: String,
    pub(super) version: u64,
    /// The version of the change that this one takes back.
    pub(super) undoes: Option<u64>,
    pub(super) old: Option<Keys>,
    pub(super) new: Option<Keys>,
    /// When, by which token, and from where.
    pub(super) who: String,
}

impl Logged {
    fn of(entry: &Value) -> Option<Self> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let keys = |name: &str| {
            entry.get(name).filter(|keys| keys.is_object()).map(|keys| json::keys(keys.to_string().as_bytes()))
        };
        let mut who = format!("{} by {}", moment(text("at")?), text("token")?);
        for (word, name) in [(" from ", "address"), (" on ", "server")] {
            who.extend(text(name).iter().flat_map(|text| [word, text]));
        }
        Some(Self {
            name: text("name")?.to_owned(),
            action: text("action")?.to_owned(),
            version: entry.get("version")?.as_u64()?,
            undoes: entry.get("undoes").and_then(Value::as_u64),
            old: keys("old").transpose().ok()?,
            new: keys("new").transpose().ok()?,
            who,
        })
    }
}

impl Logged {
    /// Returns which change it takes back, if it does.
    pub(super) fn undo(&self) -> String {
        self.undoes.map_or_else(String::new, |version| format!(", an undo of version {version}"))
    }
}

/// Returns the last changes of rules with wanted names, the newest first.
fn changes(book: &Book, most: usize, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Logged>, RuleError> {
    match book.log_of(most, wanted) {
        Ok(entries) => Ok(entries.iter().filter_map(Logged::of).collect()),
        // Without rules of callers, there are no changes of them.
        Err(RuleError::NoStore) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns the last changes of a rule, the newest first.
pub(super) fn changes_of(book: &Book, name: &str, most: usize) -> Result<Vec<Logged>, RuleError> {
    changes(book, most, &|this| this == name)
}

/// Shows the last changes whose rule or token has the searched text.
pub(in crate::serve::console) async fn log(console: &Arc<Console>, call: Call) -> Response {
    let Call { visitor, query, .. } = call;
    let caller = visitor.caller.clone();
    let may_read = move |name: &str| caller.may(Need::Read(name));
    let found = console.work(Work::Read, &visitor, move |console| changes(&console.book, MOST, &may_read));
    let rows = match found.await {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => return problem(Some(&visitor), StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        Err(answer) => return answer,
    };
    let search = query.get("q");
    let rows = rows.into_iter().filter(|row| row.name.contains(search) || row.who.contains(search)).collect();
    let (rows, links) = part(rows, query.number("page").unwrap_or(0), "/console/log", search);
    let content = html! {
        (search_form("/console/log", "Search rules and tokens", search))
        @if rows.is_empty() { section { p class="dim" { "There is no such change of a rule that you may read." } } }
        @for row in rows {
            section {
                h2 {
                    (row.action) " " a href={ "/console/rule/" (row.name) } { (row.name) } ", version " (row.version)
                    (row.undo())
                }
                p class="dim" { (row.who) }
                (difference(row.old.as_ref(), row.new.as_ref()))
            }
        }
        (links)
    };
    answer(StatusCode::OK, page(Some(&visitor), "Changes", false, &content))
}
