//! The JSON Schema of the product's output. Every JSON that a test gets from a command is checked against it.

use std::{
    collections::HashMap,
    ffi::OsStr,
    sync::{LazyLock, Mutex, PoisonError},
};

use jsonschema::Validator;
use ratelimit_sandbox::{Check, Program};
use serde_json::{Value, json};

/// The schema of this version.
const SCHEMA: &str = include_str!("../../../docs/schema/v1.json");

/// Commands that have commands below them.
const GROUPS: [&str; 7] = ["limit", "allow", "deny", "list", "cost", "fleet", "rules"];

/// The product's binary, whose JSON is checked against the schema.
pub type Ratelimit<'a> = Program<'a, Schema>;

/// Checks the output of a command, if its arguments request JSON.
#[derive(Debug, Clone, Copy)]
pub struct Schema;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(SCHEMA).expect("docs/schema is no JSON"));

/// Returns the schema.
#[must_use]
pub fn document() -> &'static Value {
    &DOCUMENT
}

/// Checks one value that a command has printed. `command` is its name in the schema, such as `limit-list`.
///
/// # Panics
///
/// If the schema has no such command, or the value does not match.
pub fn check_value(command: &str, value: &Value) {
    static VALIDATORS: LazyLock<Mutex<HashMap<String, Validator>>> = LazyLock::new(Mutex::default);
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let validator = validators.entry(command.to_owned()).or_insert_with(|| {
        assert!(DOCUMENT["$defs"].get(command).is_some(), "docs/schema has no entry for `{command}`");
        let mut schema = DOCUMENT.clone();
        close(&mut schema);
        schema["$ref"] = json!(format!("#/$defs/{command}"));
        jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("docs/schema: {command}: {error}"))
    });
    let errors: Vec<_> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "`{command}` does not match docs/schema: {errors:#?}\n{value:#}");
}

/// Allows no field that the schema does not describe. Scripts must accept new ones, so the document allows them.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            if fields.get("properties").is_some_and(Value::is_object) && fields.contains_key("type") {
                fields.entry("additionalProperties").or_insert(json!(false));
            }
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => {}
    }
}

impl Check for Schema {
    fn check<'a>(words: impl Iterator<Item = &'a OsStr>, output: &str) {
        let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
        if output.is_empty() || !words.iter().any(|word| matches!(&**word, "-j" | "--json")) {
            return;
        }
        let mut names = Vec::new();
        let mut rest = words.iter().map(|word| &**word);
        while let Some(word) = rest.next() {
            match word {
                // These options take a value, and may come before the command.
                "--pins" | "--netns" => drop(rest.next()),
                word if word.starts_with('-') => {}
                word => names.push(word),
            }
        }
        let mut names = names.into_iter();
        let (Some(first), second) = (names.next(), names.next()) else { return };
        let command = match second {
            Some("rules") if first == "fleet" => format!("fleet-rules-{}", names.next().unwrap_or_default()),
            Some(second) if GROUPS.contains(&first) => format!("{first}-{second}"),
            _ => first.to_owned(),
        };
        for line in output.lines() {
            let value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{words:?}: {error}: {line}"));
            check_value(&command, &value);
        }
    }
}
