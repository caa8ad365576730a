//! Completions for shells, which derive from the command line itself.

use std::io::{self, Write as _};

use anyhow::Result;
use clap::{Arg, Command, ValueEnum, ValueHint, builder::PossibleValuesParser};
use clap_complete::aot;
use ratelimit_common::limits::algorithm::Algorithm;

use super::print::answer::Answer;

/// The arguments that name interfaces of this host.
const INTERFACES: &str = "interfaces";
/// The option that takes a name or a path.
const NETNS: &str = "netns";
/// The commands that take interfaces.
const OF_INTERFACES: [&str; 3] = ["attach", "detach", "doctor"];

/// Words that can be values. The names of values have them: `RATE|auto|off`.
const WORDS: [&str; 7] = ["auto", "off", "default", "never", "any", "hard", "elastic"];

/// In bash, the generator completes no words without an option. The commands are those of [`OF_INTERFACES`].
const BASH: &str = r#"
_ratelimit_or_interfaces() {
    _ratelimit "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" word name takes=
    if [[ $cur == -* || $3 == -* ]]; then
        return 0
    fi
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
            attach|detach|doctor) takes=interfaces; break ;;
            help) return 0 ;;
        esac
    done
    if [[ -z $takes ]]; then
        return 0
    fi
    COMPREPLY=()
    for name in /sys/class/net/*/; do
        name=${name%/}
        name=${name##*/}
        if [[ $name == "$cur"* ]]; then
            COMPREPLY+=("$(printf %q "$name")")
        fi
    done
}
"#;

/// A shell that completes commands.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the completions for a shell.
pub(super) fn print(shell: Shell, command: Command) -> Result<Answer> {
    io::stdout().write_all(completions(shell, command).as_bytes())?;
    Ok(Answer::Done)
}

/// Returns the script that completes commands in a shell.
pub(super) fn completions(shell: Shell, command: Command) -> String {
    let (mut script, mut command) = (Vec::new(), with_values(command));
    let generator = match shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    // A failed write would panic there. A vector takes everything.
    aot::generate(generator, &mut command, "ratelimit", &mut script);
    let script = String::from_utf8_lossy(&script);
    // The generators know no names of interfaces. That for zsh knows those of hosts.
    match shell {
        Shell::Bash => {
            let complete = "complete -F _ratelimit";
            let (functions, last) = script.rsplit_once("\nif [[").unwrap_or((&*script, ""));
            let last = last.replace(&format!("{complete} "), &format!("{complete}_or_interfaces "));
            format!("{functions}{BASH}\nif [[{last}")
        }
        Shell::Zsh => script.replace(":_hosts'", ":_net_interfaces'"),
        Shell::Fish => OF_INTERFACES.iter().fold(script.into_owned(), |script, name| {
            let condition = format!("__fish_ratelimit_using_subcommand {name}");
            format!("{script}complete -c ratelimit -n \"{condition}\" -f -a \"(__fish_print_interfaces)\"\n")
        }),
    }
}

/// Returns the command with values for the arguments of it, and of all commands below it.
fn with_values(command: Command) -> Command {
    command.mut_args(with_value).mut_subcommands(with_values)
}

fn with_value(argument: Arg) -> Arg {
    if !argument.get_action().takes_values() || !argument.get_possible_values().is_empty() {
        return argument;
    }
    let id = argument.get_id().as_str();
    if id == INTERFACES {
        return argument.value_hint(ValueHint::Hostname);
    }
    let names: Vec<&str> =
        argument.get_value_names().unwrap_or_default().iter().map(clap::builder::Str::as_str).collect();
    let is_value = |word: &&str| names.iter().flat_map(|name| name.split('|')).any(|part| part == *word);
    let words: Vec<&'static str> = match id {
        "algorithm" => Algorithm::ALL.map(Algorithm::name).to_vec(),
        _ => WORDS.into_iter().filter(is_value).collect(),
    };
    if !words.is_empty() {
        argument.value_parser(PossibleValuesParser::new(words))
    } else if argument.get_value_hint() == ValueHint::Unknown && id != NETNS && !argument.is_positional() {
        // Shells would complete names of files.
        argument.value_hint(ValueHint::Other)
    } else {
        argument
    }
}
