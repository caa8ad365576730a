//! What is wrong with a command line, in one line with a tip.

use std::{
    error::Error as _,
    num::{IntErrorKind, ParseIntError},
};

use clap::{
    Arg, Command, Error,
    error::{ContextKind, ContextValue, ErrorKind},
};
use ratelimit_dataplane::rules::target::Sources;

/// The similarity from which on an option is worth a tip, from 0 to 1. Less similar ones are seldom the intended ones.
const ALIKE: f64 = 0.8;

/// Words for commands that other tools have, and the command here.
const SYNONYMS: [(&[&str], &str); 6] = [
    (&["ban", "block", "drop"], "`ratelimit deny add ADDRESS --for 10m` bans a source"),
    (&["unban", "unblock"], "`ratelimit deny del ADDRESS` ends a ban"),
    (&["start", "enable"], "`ratelimit attach IFACE` attaches to an interface"),
    (&["stop", "disable", "flush", "reset", "remove"], "`ratelimit detach --all` removes everything"),
    (
        &["undo", "rollback", "history"],
        "`ratelimit events --past` lists the changes, and `attach --confirm` undoes itself",
    ),
    (&["rules", "show"], "`ratelimit limit list`, `allow list`, `deny list` and `list list` list the rules"),
];

/// Returns the parser's message and a tip, without the usage. `words` are the command line without the program's name.
pub(super) fn one_line(error: &Error, all: Command, words: impl Iterator<Item = String>) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "the command is incomplete: `ratelimit help` lists all commands".to_owned();
    }
    let text = error.to_string();
    let message = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = message.lines().map(str::trim).take_while(|line| !line.is_empty() && !line.starts_with("Usage:"));
    let message = of_number(lines.collect::<Vec<_>>().join(" "), error);
    let words: Vec<_> = words.collect();
    let (command, help) = innermost(all, &words);
    let tip = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => of_command(word, &help),
        (ErrorKind::UnknownArgument, _) => similar_option(error).or_else(|| equals_sign(&command, &words)),
        _ => None,
    };
    // For unknown options, its tips are how to pass them as values.
    let similar = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let similar = similar.filter(|_| error.kind() != ErrorKind::UnknownArgument);
    let tip = tip.or_else(|| similar.map(str::to_owned)).unwrap_or_else(|| format!("see `{help}`"));
    format!("{message} ({tip})")
}

/// Returns a tip for a word in the place of a command. `help` is the help for the words before.
fn of_command(word: &str, help: &str) -> Option<String> {
    let (verb, rate) = match help {
        "ratelimit help" => {
            let (_, tip) = SYNONYMS.iter().find(|(words, _)| words.contains(&word))?;
            return Some((*tip).to_owned());
        }
        "ratelimit help limit" => ("limit set", " --packets RATE"),
        "ratelimit help allow" => ("allow add", ""),
        "ratelimit help deny" => ("deny add", ""),
        _ => return None,
    };
    let is_source = word.parse::<Sources>().is_ok();
    is_source.then(|| format!("`ratelimit {verb} {word}{rate}` sets its rule"))
}

/// Returns a tip about an option that is written almost as the unknown one.
fn similar_option(error: &Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    };
    let (found, similar) = (text(ContextKind::InvalidArg)?, text(ContextKind::SuggestedArg)?);
    let alike = strsim::jaro(found.trim_start_matches('-'), similar.trim_start_matches('-'));
    (alike >= ALIKE).then(|| format!("a similar option exists: '{similar}'"))
}

/// Returns a tip about a value that stands behind an option without the sign in between.
fn equals_sign(command: &Command, words: &[String]) -> Option<String> {
    words.iter().zip(words.iter().skip(1)).find_map(|(name, value)| {
        let long = name.strip_prefix("--")?;
        let option = command.get_arguments().find(|option| option.get_long() == Some(long))?;
        let is_value = option.get_possible_values().iter().any(|possible| possible.matches(value, false));
        (option.is_require_equals_set() && is_value).then(|| format!("write `{name}={value}`"))
    })
}

/// Puts what the library says about a number in plain words.
fn of_number(message: String, error: &Error) -> String {
    let Some(problem) = error.source().and_then(|source| source.downcast_ref::<ParseIntError>()) else {
        return message;
    };
    let Some(start) = message.strip_suffix(&problem.to_string()) else { return message };
    let plain = match problem.kind() {
        IntErrorKind::PosOverflow => "the number is too large",
        IntErrorKind::NegOverflow => "the number is too small",
        _ => "expected a whole number",
    };
    format!("{start}{plain}")
}

/// Returns whether the word is an option of the command whose value is the next word.
fn has_value_behind(command: &Command, word: &str) -> bool {
    let is_this = |option: &&Arg| match word.strip_prefix("--") {
        Some(long) => option.get_long() == Some(long),
        None => option.get_short().is_some_and(|short| word.chars().skip(1).eq([short])),
    };
    let option = command.get_arguments().find(is_this);
    option.is_some_and(|option| option.get_action().takes_values() && !option.is_require_equals_set())
}

/// Returns the command that these words of a command line name, and the help command for it.
fn innermost(mut command: Command, words: &[String]) -> (Command, String) {
    let (mut help, global) = ("ratelimit help".to_owned(), command.clone());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.starts_with('-') {
            if [&global, &command].into_iter().any(|command| has_value_behind(command, word)) {
                words.next();
            }
            continue;
        }
        let Some(found) = command.find_subcommand(word).cloned() else { break };
        help = format!("{help} {}", found.get_name());
        command = found;
    }
    (command, help)
}
