//! Reads tables whose keys are options of commands, with the same names, values and messages.

use std::{error::Error as _, ffi::OsString, num::ParseIntError};

use clap::{
    Arg, Args, Command, FromArgMatches,
    error::{ContextKind, ErrorKind},
};

use super::table::{Table, Value};

/// Reads options of a command from a table, which may also have the keys `others`. Returns None if there is a problem.
pub fn read<T: Args + FromArgMatches>(table: &Table<'_>, others: &[&str]) -> Option<T> {
    let mut command = T::augment_args(Command::new("").no_binary_name(true));
    command.build();
    let known: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).filter(|key| *key != "help").collect();
    // Aliases are the names of earlier versions. They are read, but no message suggests them.
    let aliases: Vec<&str> = command.get_arguments().flat_map(hidden_aliases).collect();
    let is_expected = table.expect_keys(&[&known, others].concat(), &aliases);
    let mut is_good = command.get_arguments().all(|option| is_set_once(option, table)) && is_expected;
    let mut words = Vec::new();
    for (key, value) in
        table.each().filter(|(key, _)| known.iter().chain(&aliases).any(|name| *name == key.get_ref().as_ref()))
    {
        let Some(of_key) = words_of(key.get_ref(), value) else {
            is_good = false;
            continue;
        };
        if let Some(words) = words_instead_of_switch(&command, key.get_ref()).filter(|_| value.has_switch()) {
            value.wrong(format!("expected one of {words}, in quotes"));
            is_good = false;
            continue;
        }
        // Each value is parsed alone first, so that a problem has its place in the file.
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

/// Returns the names of options, with their aliases.
pub fn keys<T: Args>() -> Vec<String> {
    let command = T::augment_args(Command::new(""));
    let names =
        command.get_arguments().flat_map(|option| [option.get_long().into_iter().collect(), aliases(option)].concat());
    names.map(str::to_owned).collect()
}

fn aliases(option: &Arg) -> Vec<&str> {
    option.get_all_aliases().unwrap_or_default()
}

/// Returns the words of an option. None for one that has none, and for a switch. `true` would be taken for the word `on`.
fn words_instead_of_switch(command: &Command, key: &str) -> Option<String> {
    let option = command.get_arguments().find(|option| option.get_long() == Some(key))?;
    let words: Vec<_> = option.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
    (!words.is_empty() && words != ["on", "off"]).then(|| words.join(", "))
}

/// Returns whether a table does not have both the name and an alias of an option. Otherwise adds a problem.
fn is_set_once(option: &Arg, table: &Table<'_>) -> bool {
    let Some(name) = option.get_long().filter(|name| table.get(name).is_some()) else { return true };
    let Some(again) = hidden_aliases(option).find_map(|alias| table.get(alias)) else { return true };
    again.wrong(format!("this key is an older name of {name}, which this table has too: remove one of the two"));
    false
}

/// Returns the names of an option that no help shows.
fn hidden_aliases(option: &Arg) -> impl Iterator<Item = &str> {
    let visible = option.get_visible_aliases().unwrap_or_default();
    aliases(option).into_iter().filter(move |alias| !visible.contains(alias))
}

fn words_of(key: &str, value: Value<'_>) -> Option<Vec<OsString>> {
    Some(value.option_words()?.iter().map(|word| format!("--{key}={word}").into()).collect())
}

/// Returns the problem of one value.
fn of_value(error: &clap::Error) -> String {
    if let Some(values) = error.get(ContextKind::ValidValue) {
        let values = values.to_string();
        // A file has no options.
        return if values == "on, off" {
            "expected true or false".to_owned()
        } else {
            format!("expected one of {values}")
        };
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

/// Returns the problem of several values together.
fn of_table(error: &clap::Error) -> String {
    // Without the placeholder for its value.
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

/// Turns a message about options into one about keys.
pub fn in_file(text: &str) -> String {
    text.replace("--", "")
}
