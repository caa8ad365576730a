//! A rule without a file around it: its name, and the keys of a table `[[check]]` with their values.

use std::{borrow::Cow, fmt::Write as _};

use ratelimit_base::{
    tables::table::{Page, Table},
    text::excerpt::excerpt,
};
use ratelimit_limiter::{ADDRESS, Rule};
use toml::{Value, de::DeTable};

use super::{check::rule, stop};

/// The keys of a rule with their values.
pub type Keys = toml::Table;

/// Writes a rule as the lines of a table `[[check]]`: its name, and one line for each key. Whoever has chosen the keys, the
/// text can be read again, and no character of it controls a terminal.
#[must_use]
pub fn write(name: &str, keys: &Keys) -> String {
    let mut text = format!("name = {}\n", quoted(name));
    for (key, value) in keys {
        let _ = writeln!(text, "{}", line(key, value));
    }
    text
}

fn line(key: &str, value: &Value) -> String {
    let key = if is_bare(key) { key.to_owned() } else { quoted(key) };
    format!("{key} = {}", in_line(value))
}

/// Writes a value without a line break.
#[must_use]
pub fn in_line(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(values) => format!("[{}]", values.iter().map(in_line).collect::<Vec<_>>().join(", ")),
        Value::Table(values) if values.is_empty() => "{}".to_owned(),
        Value::Table(values) => {
            let each = values.iter().map(|(key, value)| line(key, value));
            format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\'' => quoted.push(character),
            _ if character.escape_debug().len() == 1 => quoted.push(character),
            _ => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(character));
            }
        }
    }
    quoted + "\""
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
    let problems = page.problems();
    let in_words = |problem: &ratelimit_base::tables::problem::Problem| {
        // The first line has the name.
        let key = problem.line.checked_sub(2).map_or(Some("name"), |number| keys.keys().nth(number).map(|key| &**key));
        let key = excerpt(key.unwrap_or_default());
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

/// The key without effect that a rule of an earlier version can have.
const PREFIX: &str = "ipv6-prefix";

/// Returns the keys of a rule that is stored already, as [`read`] takes them: without `ipv6-prefix` if no address is counted.
/// New rules cannot have it then.
#[must_use]
pub fn with_effect(keys: &Keys) -> Cow<'_, Keys> {
    let is_address = |value: &Value| value.as_str() == Some(ADDRESS);
    let names_address =
        |value: &Value| is_address(value) || value.as_array().is_some_and(|all| all.iter().any(is_address));
    if !keys.contains_key(PREFIX) || keys.get("key").is_some_and(names_address) {
        return Cow::Borrowed(keys);
    }
    let mut keys = keys.clone();
    keys.remove(PREFIX);
    Cow::Owned(keys)
}

/// Returns whether a key needs no quotes.
fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
