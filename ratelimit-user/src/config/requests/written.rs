//! A rule without a file around it: its name, and the keys of a table `[[check]]` with their values.

use std::fmt::Write as _;

use toml::de::DeTable;

use super::{check::rule, stop};
use crate::{
    check::Rule,
    config::table::{Page, Table},
    text::excerpt::excerpt,
};

/// The keys of a rule with their values.
pub type Keys = toml::Table;

/// Writes a rule as the lines of a table `[[check]]`: its name, and one line for each key.
#[must_use]
pub fn write(name: &str, keys: &Keys) -> String {
    let mut text = format!("name = {}\n", toml::Value::from(name));
    for (key, value) in keys {
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}

/// Reads a rule as the file is read.
///
/// # Errors
///
/// Fails with all problems. Each begins with its key, if it has one.
pub fn read(name: &str, keys: &Keys, attributes: &[String]) -> Result<Rule, Vec<String>> {
    if let Some(key) = keys.keys().find(|key| !is_bare(key)) {
        return Err(vec![format!("{}: unknown key", excerpt(key))]);
    }
    if keys.contains_key("name") {
        return Err(vec!["name: remove this key: the path of the call has the name".to_owned()]);
    }
    if keys.contains_key(stop::KEY) {
        let key = stop::KEY;
        return Err(vec![format!("{key}: remove this key: only rules in the file of the server may have it")]);
    }
    let text = write(name, keys);
    let page = Page::new(&text);
    let rule = match DeTable::parse(&text) {
        Ok(entries) => rule(&Table::new(&page, 0..0, entries.get_ref()), attributes),
        Err(error) => {
            page.wrong(0..0, error.message());
            None
        }
    };
    // A value can take several lines.
    let mut starts = vec![(1, "name")];
    let mut line = 1 + toml::Value::from(name).to_string().lines().count();
    for (key, value) in keys {
        starts.push((line, key));
        line += value.to_string().lines().count();
    }
    let problems = page.problems();
    let in_words = |problem: &crate::config::problem::Problem| {
        let key = starts.iter().rev().find(|(start, _)| *start <= problem.line).map_or("", |(_, key)| key);
        let key = excerpt(key);
        match &*problem.found {
            "" => problem.message.clone(),
            found if found == key => format!("{key}: {}", problem.message),
            found => format!("{key}: {found}: {}", problem.message),
        }
    };
    match rule {
        Some(rule) if problems.is_empty() => Ok(rule),
        _ => Err(problems.iter().map(in_words).collect()),
    }
}

/// Returns whether a key needs no quotes.
fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
