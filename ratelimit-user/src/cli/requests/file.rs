//! A rule as a file gives it.

use anyhow::{Result, anyhow, bail};
use ratelimit_base::text::excerpt::excerpt;
use ratelimit_server::config::{json, stored::problem, written::Keys};
use toml::Value;

/// Reads the keys of the rule with this name: alone, or in a table `[[check]]`.
pub(super) fn keys(text: &str, file: &str, name: &str) -> Result<Keys> {
    let mut keys: Keys = if text.trim_start().starts_with('{') {
        json::keys(text.as_bytes()).map_err(|problem| anyhow!("{file}: {problem}"))?
    } else {
        toml::from_str(text).map_err(|error| anyhow!("{file}:{}", problem(text, &error)))?
    };
    let Some(tables) = keys.remove("check") else { return named(keys, file, name) };
    if let Some(other) = keys.keys().next() {
        bail!("{file}: {}: remove this key: beside a table [[check]], nothing is read", excerpt(other));
    }
    let Value::Array(tables) = tables else { bail!("{file}: check: expected a table [[check]]") };
    let is_this = |table: &&Value| table.get("name").and_then(Value::as_str) == Some(name);
    let table = match &tables[..] {
        [one] => Some(one),
        all => all.iter().find(is_this),
    };
    match table {
        Some(Value::Table(keys)) => named(keys.clone(), file, name),
        Some(_) => bail!("{file}: check: expected a table [[check]]"),
        None => bail!("{file}: no table [[check]] has the name {}", excerpt(name)),
    }
}

/// Takes the name of a rule from its keys, which need not be there.
fn named(mut keys: Keys, file: &str, name: &str) -> Result<Keys> {
    match keys.remove("name") {
        Some(other) if other.as_str() != Some(name) => {
            let (other, name) = (excerpt(&other.to_string()), excerpt(name));
            bail!("{file}: the rule has the name {other}, and the command says {name}: change one of them")
        }
        _ => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratelimit_server::config::written;

    #[test]
    fn a_file_is_toml_or_json_with_keys_alone_or_in_a_table() {
        let alone: Keys = toml::from_str("limits = [\"3/m\"]\nmatch = { operation = \"a\" }\n").unwrap();
        let lines = written::write("a", &alone);
        for text in [
            "limits = [\"3/m\"]\nmatch = { operation = \"a\" }\n",
            " {\"limits\": [\"3/m\"], \"match\": {\"operation\": \"a\"}}",
            &lines,
            &format!("# a: version 2\n[[check]]\n{lines}"),
            &format!("[[check]]\nname = \"b\"\nlimits = \"1/s\"\n[[check]]\n{lines}"),
        ] {
            assert_eq!(keys(text, "FILE", "a").unwrap(), alone, "{text}");
        }
        for (text, expected) in [
            ("limits = [\"3/m\"\nkey = 1", "FILE:2:"),
            ("{\"limits\": null}", "FILE: "),
            ("{\"limits\": [}", "line 1, column 13"),
            ("name = \"b\"\n", "FILE: the rule has the name \"b\", and the command says a: change one of them"),
            ("[[check]]\nname = \"b\"\n", "the rule has the name \"b\""),
            ("[[check]]\nname = \"b\"\n[[check]]\n", "FILE: no table [[check]] has the name a"),
            ("key = \"ip\"\n[[check]]\n", "FILE: key: remove this key: beside a table [[check]], nothing is read"),
            ("[check]\n", "FILE: check: expected a table [[check]]"),
            ("check = [1]\n", "FILE: check: expected a table [[check]]"),
        ] {
            let error = format!("{:#}", keys(text, "FILE", "a").unwrap_err());
            assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
        }
    }
}
