//! What is wrong with a command line, in one line with a tip.

use clap::{
    Command, Error,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::dataplane::rules::target::Sources;

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
    let message = lines.collect::<Vec<_>>().join(" ");
    let help = help_for(all, words);
    let tip = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => of_command(word, &help),
        _ => None,
    };
    // For options, the parser suggests names of similar letters, which are seldom the intended ones.
    let similar = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let similar = similar.filter(|_| error.kind() != ErrorKind::UnknownArgument);
    let tip = tip.or_else(|| similar.map(str::to_owned)).unwrap_or_else(|| format!("see `{help}`"));
    format!("{message} ({tip})")
}

/// Returns a tip for a word in the place of a command. `help` is the help for the words before.
fn of_command(word: &str, help: &str) -> Option<String> {
    let verb = match help {
        "ratelimit help" => {
            let (_, tip) = SYNONYMS.iter().find(|(words, _)| words.contains(&word))?;
            return Some((*tip).to_owned());
        }
        "ratelimit help limit" => "limit set",
        "ratelimit help allow" => "allow add",
        "ratelimit help deny" => "deny add",
        _ => return None,
    };
    let is_source = word.parse::<Sources>().is_ok();
    is_source.then(|| format!("`ratelimit {verb} {word}` sets its rule"))
}

/// Returns the help command for these words of a command line.
fn help_for(mut command: Command, words: impl Iterator<Item = String>) -> String {
    let mut help = "ratelimit help".to_owned();
    for word in words.filter(|word| !word.starts_with('-')) {
        let Some(found) = command.find_subcommand(&word).cloned() else { break };
        help = format!("{help} {word}");
        command = found;
    }
    help
}
