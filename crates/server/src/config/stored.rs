//! The file of rules that callers change.

use std::{collections::BTreeMap, fmt::Write as _};

use ratelimit_base::{
    tables::problem::{Lines, Problem},
    text::plain::plain,
};
use serde::Deserialize;

use super::written::{self, Keys};

/// The beginning of the file.
const HEAD: &str = "# Rules that callers have written. The server replaces this file with each change.\n";

/// All rules that callers have written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    /// The version of the last change.
    pub version: u64,
    /// A random name of the rules that a fleet has in its engine. None if they are those of one server.
    pub fleet: Option<String>,
    /// The rules by their names.
    pub rules: BTreeMap<String, Stored>,
}

/// A rule that a caller has written.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The version of the change that has written it.
    pub version: u64,
    /// Its keys, without its name.
    pub keys: Keys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    version: u64,
    #[serde(default)]
    fleet: Option<String>,
    #[serde(default)]
    check: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    version: u64,
    #[serde(flatten)]
    keys: Keys,
}

/// Writes the text of the file.
#[must_use]
pub fn write(contents: &Contents) -> String {
    let mut text = format!("{HEAD}version = {}\n", contents.version);
    if let Some(fleet) = &contents.fleet {
        let _ = writeln!(text, "fleet = {}", toml::Value::from(&**fleet));
    }
    for (name, stored) in &contents.rules {
        text += &write_rule(name, stored);
    }
    text
}

/// Writes the part of a rule.
#[must_use]
pub fn write_rule(name: &str, Stored { version, keys }: &Stored) -> String {
    format!("\n[[check]]\nversion = {version}\n{}", written::write(name, keys))
}

/// Reads the text of the file. The rules themselves are not checked.
///
/// # Errors
///
/// Fails with the first problem.
pub fn parse(text: &str) -> Result<Contents, Problem> {
    let Whole { version, fleet, check } = toml::from_str(text).map_err(|error| problem(text, &error))?;
    let mut rules = BTreeMap::new();
    for Named { name, version, keys } in check {
        if rules.insert(name.clone(), Stored { version, keys }).is_some() {
            return Err(Problem::at(text, &Lines::of(text), 0..0, format!("{name} is there twice: delete one")));
        }
    }
    Ok(Contents { version, fleet, rules })
}

/// Returns whether a text is none that any version writes, as after a crash or a fault of the disk.
#[must_use]
pub fn is_damaged(text: &str) -> bool {
    text.trim().is_empty() || toml::from_str::<toml::Table>(text).is_err()
}

/// Returns an error of the library with its place.
#[must_use]
pub fn problem(text: &str, error: &toml::de::Error) -> Problem {
    let problem = Problem::at(text, &Lines::of(text), error.span().unwrap_or_default(), plain(error.message()));
    // An unknown key is in both.
    let message = problem.message.strip_prefix(&format!("{}: ", problem.found)).map(str::to_owned);
    Problem { message: message.unwrap_or(problem.message), ..problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let keys: Keys = serde_json::from_str(
            r#"{"limits": ["3/m", "100/h"], "key": "user", "shadow": true, "clients": 64,
                "match": {"operation": ["a\n\"b\"", "'''"], "path": "/\u0000\\é"}}"#,
        )
        .unwrap();
        let stored = |version| Stored { version, keys: keys.clone() };
        let rules = [("b".to_owned(), stored(7)), ("a".to_owned(), stored(9))].into();
        let contents = Contents { version: 9, fleet: None, rules };
        assert_eq!(parse(&write(&contents)).unwrap(), contents);
        let contents = Contents { fleet: Some("c0ffee".to_owned()), ..contents };
        assert_eq!(parse(&write(&contents)).unwrap(), contents);
        assert_eq!(parse(&write(&Contents::default())).unwrap(), Contents::default());
    }

    #[test]
    fn only_a_text_that_no_version_writes_is_damaged() {
        for (text, expected) in [
            ("", true),
            ("\n", true),
            ("\0\0", true),
            ("version = 1\n[[check]]\nname = \"a\n", true),
            ("version = 1\nlater = true\n", false),
            ("# of somebody\n[serve]\n", false),
        ] {
            assert_eq!(is_damaged(text), expected, "{text:?}");
        }
    }

    #[test]
    fn another_file_is_refused_with_the_place() {
        for (text, expected) in [
            ("", "version is missing"),
            ("version = 1\n[serve]\n", "2:2: serve: unknown key: expected one of version, fleet, check"),
            ("version = 1\n[[check]]\nname = \"a\"\n", "version is missing"),
            ("version = -1\n", "1:11: -1: expected a whole number, not -1"),
            ("version = 1\n[[check]]\nname = \"a\n", "3:10: invalid basic string"),
        ] {
            let problem = parse(text).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        }
        let rule = "[[check]]\nname = \"a\"\nversion = 1\n";
        let problem = parse(&format!("version = 1\n{rule}{rule}")).unwrap_err().to_string();
        assert!(problem.ends_with("a is there twice: delete one"), "{problem}");
    }
}
