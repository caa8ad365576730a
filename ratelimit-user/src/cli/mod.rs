//! Words in, words out: one file per command.

mod access;
mod attach;
mod change;
mod check;
mod confirm;
mod cost;
mod detach;
mod doctor;
mod events;
mod follow;
mod limit;
mod many;
mod metrics;
mod output;
mod run;
mod sources;
mod status;
mod upgrade;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand, error::ErrorKind};

use crate::{controller::notify::journal, dataplane::instance::open::PINS};
use output::Output;

/// Throttles packets per source in the kernel, before the network stack sees them.
///
/// RATE is 1000/s, 1.5k/s, 500/h or 3/m for packets; 10MB/s or 100Mbit/s for bytes. Exit status: 0 done, 1 a negative answer, 2 an error.
#[derive(Debug, Parser)]
#[command(name = "ratelimit", version, max_term_width = 100)]
struct Arguments {
    /// Print JSON
    #[arg(short, long, global = true)]
    json: bool,
    /// Folder of the pinned program and maps; one instance each
    #[arg(long, global = true, value_name = "DIR", env = "RATELIMIT_PINS", default_value = PINS)]
    pins: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Attach to interfaces, or update the program on interfaces that have it; without a rate, only observe
    Attach(attach::Arguments),
    /// Let an attach with --confirm stay
    Confirm,
    /// Detach from interfaces; --all also removes every rule
    Detach(detach::Arguments),
    /// Bring what another version has left to this one, with all rules and without a gap; needs all of root's privileges
    Upgrade,
    /// Limit what each source of a prefix may send
    #[command(subcommand)]
    Limit(limit::Command),
    /// Let sources pass whatever they send
    #[command(subcommand)]
    Allow(access::AllowCommand),
    /// Drop all that sources send
    #[command(subcommand)]
    Deny(access::DenyCommand),
    /// Let packets of a service count as more than one in limits of packets
    #[command(subcommand)]
    Cost(cost::Command),
    /// Put a configuration file in force, and follow it: a daemon, which packets do not need
    Run(run::Arguments),
    /// Have the daemon read its file again; it does so by itself when the file changes
    Reload(run::ReloadArguments),
    /// Print what is in force as a configuration file: interfaces, settings, costs and rules; [metrics] is the daemon's alone
    Save,
    /// Print the daemon's numbers once, as Prometheus reads them
    Metrics,
    /// Say what is wrong with a configuration file; changes nothing
    Check(check::Arguments),
    /// Say what will hurt, before or while attached, and what mends it; changes nothing
    ///
    /// Looks at privileges, kernel, interfaces, traffic (for a second), tables, the SSH session and other limiters. Exit status 1 if there is a warning or an error.
    Doctor(doctor::Arguments),
    /// Show where ratelimit is attached and what became of the packets
    Status(status::Arguments),
    /// Print what happens until Ctrl-C: who is throttled or banned, and for whom that has ended
    ///
    /// A source is throttled once a limit refuses it, and no longer when it was not refused for 10 seconds. The kernel side tells of 100 a
    /// second at most; how many were left out is said.
    Events(events::Arguments),
    /// Show the tracked sources
    ///
    /// Unless attached with --front off, sources that exceed nothing are recorded by samples of one packet in 256, so that what has passed
    /// within a limit is an estimate, and a quiet source may be missing. What was dropped over a limit or by a deny is exact, unless three
    /// sources of a cell have exceeded a limit (two with --unknown): then some of it is missing. Drops as not-admitted and over-unknown are in `ratelimit status` alone.
    Sources(sources::Arguments),
}

/// How a command ended, if not with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Done: exit status 0.
    Done,
    /// A negative answer: exit status 1.
    Negative,
    /// Another process has said it, and ended with this status.
    Said(u8),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            // Help and version were asked for; a reader that has gone away is none of our failures.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&one_line(&error)),
    };
    match run(arguments) {
        Ok(Answer::Done) => ExitCode::SUCCESS,
        Ok(Answer::Negative) => ExitCode::FAILURE,
        Ok(Answer::Said(status)) => ExitCode::from(status),
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("{error:#}")),
    }
}

/// Checks words of a command line, without the program's name, and runs nothing.
///
/// # Errors
///
/// Fails where the command line would be refused. A request for help is none.
pub fn accepts<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<(), clap::Error> {
    let words = std::iter::once("ratelimit").chain(words);
    Arguments::try_parse_from(words).map(drop).or_else(|error| if error.use_stderr() { Err(error) } else { Ok(()) })
}

fn run(arguments: Arguments) -> Result<Answer> {
    let Arguments { json, pins, command } = arguments;
    let output = Output { json };
    match command {
        Command::Attach(arguments) => attach::run(&arguments, &pins, output),
        Command::Confirm => confirm::run(&pins, output),
        Command::Detach(arguments) => detach::run(&arguments, &pins, output),
        Command::Upgrade => upgrade::run(&pins, output),
        Command::Limit(command) => limit::run(&command, &pins, output),
        Command::Allow(command) => access::allow(&command, &pins, output),
        Command::Deny(command) => access::deny(&command, &pins, output),
        Command::Cost(command) => cost::run(&command, &pins, output),
        Command::Run(arguments) => run::run(&arguments, &pins),
        Command::Reload(arguments) => run::reload(&arguments, &pins, output),
        Command::Save => run::save(&pins, output),
        Command::Metrics => metrics::run(&pins, output),
        Command::Check(arguments) => check::run(&arguments, output),
        Command::Doctor(arguments) => doctor::run(&arguments, &pins, output),
        Command::Status(arguments) => status::run(&arguments, &pins, output),
        Command::Events(arguments) => events::run(&arguments, &pins, output),
        Command::Sources(arguments) => sources::run(&arguments, &pins, output),
    }
}

fn fail(message: &str) -> ExitCode {
    journal::say(journal::Level::Error, message);
    ExitCode::from(2)
}

/// The parser's message and its tip, without its usage, which fill several lines.
fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "the command is not complete: `ratelimit help` lists all".to_owned();
    }
    let text = error.to_string();
    let message = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = message.lines().map(str::trim).take_while(|line| !line.is_empty() && !line.starts_with("Usage:"));
    let message = lines.collect::<Vec<_>>().join(" ");
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let help = format!("see `{}`", help_for(std::env::args().skip(1)));
    // Among the options of a command, what is similar by its letters is seldom what was meant.
    let tip = tip.filter(|_| error.kind() != ErrorKind::UnknownArgument);
    format!("{message} ({})", tip.unwrap_or(&help))
}

/// The command that explains those words.
fn help_for(words: impl Iterator<Item = String>) -> String {
    let (mut command, mut help) = (Arguments::command(), "ratelimit help".to_owned());
    for word in words.filter(|word| !word.starts_with('-')) {
        let Some(found) = command.find_subcommand(&word).cloned() else { break };
        help = format!("{help} {word}");
        command = found;
    }
    help
}
