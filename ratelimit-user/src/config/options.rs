//! Keys that are options of commands: the same names, the same values, the same words about what is wrong.

use std::{error::Error as _, ffi::OsString, num::ParseIntError};

use clap::{
    Args, Command, FromArgMatches,
    error::{ContextKind, ErrorKind},
};

use super::table::{Table, Value};

/// Reads options of a command out of a table, which may have these other keys besides. Nothing if anything is wrong.
pub(super) fn read<T: Args + FromArgMatches>(table: &Table<'_>, others: &[&str]) -> Option<T> {
    let mut command = T::augment_args(Command::new("").no_binary_name(true));
    command.build();
    let known: Vec<&str> =
        command.get_arguments().filter_map(clap::Arg::get_long).filter(|key| *key != "help").collect();
    // Aliases are the names of earlier versions: they are read, and no message offers them.
    let aliases: Vec<&str> =
        command.get_arguments().flat_map(|option| option.get_all_aliases().unwrap_or_default()).collect();
    let mut is_good = table.expect_keys(&[&known, others].concat(), &aliases);
    let mut words = Vec::new();
    for (key, value) in
        table.each().filter(|(key, _)| known.iter().chain(&aliases).any(|name| *name == key.get_ref().as_ref()))
    {
        let Some(of_key) = words_of(key.get_ref(), value) else {
            is_good = false;
            continue;
        };
        // Each by itself first, so that a problem is where it stands.
        match command.clone().try_get_matches_from(&of_key) {
            Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => {
                value.wrong(of_value(&error));
                is_good = false;
            }
            _ => words.extend(of_key),
        }
    }
    if !is_good {
        return None;
    }
    let matches = command.try_get_matches_from(&words).and_then(|matches| T::from_arg_matches(&matches));
    matches.map_err(|error| table.wrong(of_table(&error))).ok()
}

fn words_of(key: &str, value: Value<'_>) -> Option<Vec<OsString>> {
    Some(value.words()?.iter().map(|word| format!("--{key}={word}").into()).collect())
}

/// What is wrong with one value.
fn of_value(error: &clap::Error) -> String {
    if let Some(values) = error.get(ContextKind::ValidValue) {
        return format!("expected one of {values}");
    }
    if let Some(why) = error.source() {
        let text = why.to_string();
        let range = text.split_once(" is not in ").and_then(|(_, range)| range.split_once("..="));
        return match range {
            _ if why.is::<ParseIntError>() => "expected a whole number".to_owned(),
            Some((least, most)) => format!("expected a number from {least} to {most}"),
            None => text,
        };
    }
    match error.kind() {
        ErrorKind::ArgumentConflict => "expected one value".to_owned(),
        _ => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    }
}

/// What is wrong with several together.
fn of_table(error: &clap::Error) -> String {
    // Without what stands for its value.
    let name = |text: String| text.split(" <").next().map(in_file).unwrap_or_default();
    let text = |kind| error.get(kind).map(|value| name(value.to_string())).unwrap_or_default();
    match error.kind() {
        ErrorKind::MissingRequiredArgument => format!("{} is missing", text(ContextKind::InvalidArg)),
        ErrorKind::ArgumentConflict => {
            format!("{} cannot be used with {}", text(ContextKind::InvalidArg), text(ContextKind::PriorArg))
        }
        _ => in_file(error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ")),
    }
}

/// What a command says of its options, for a file.
pub(super) fn in_file(text: &str) -> String {
    text.replace("--", "")
}
