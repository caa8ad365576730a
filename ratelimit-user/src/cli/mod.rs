//! The command line. This folder parses arguments, calls the layers below, and prints. What changes an instance belongs
//! to `controller` and `dataplane`. Each command has one file. It does one thing and prints the result.

#[cfg(not(all(feature = "fleet", feature = "server", feature = "top")))]
mod absent;
mod completions;
mod daemon;
#[cfg(feature = "fleet")]
mod fleet;
mod lists;
mod manual;
mod parse_error;
mod place;
mod print;
mod program;
#[cfg(feature = "server")]
mod requests;
mod rules;
mod show;
#[cfg(feature = "top")]
mod top;

use std::{
    env, iter,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand, builder::NonEmptyStringValueParser};
use ratelimit_base::notify::journal;
use ratelimit_daemon::{controller::events::changes, ssh};
use ratelimit_dataplane::{VERSION, instance::lock, pins::layout::PINS, sys::namespace};

use self::{
    daemon::{check, reload, run, save},
    print::{
        answer::Answer,
        output::{self, Output},
    },
    program::{attach, confirm, detach, set, upgrade},
    rules::{access, cost, limit},
    show::{doctor, events, metrics, replay, sources, status, suggest, why},
};

#[cfg(not(feature = "fleet"))]
use self::absent::Arguments as FleetCommand;
#[cfg(not(feature = "server"))]
use self::absent::{Arguments as ServeArguments, Arguments as RulesCommand, Arguments as UsageArguments};
#[cfg(feature = "fleet")]
use self::fleet::Command as FleetCommand;
#[cfg(feature = "server")]
use self::{
    daemon::serve::{self, Arguments as ServeArguments},
    requests::Command as RulesCommand,
    show::usage::{self, Arguments as UsageArguments},
};

/// Limits how many packets and bytes each source may send. The kernel drops the rest before the network stack sees it.
///
/// RATE is a number of packets or bytes per s, m, h or d: 1000/s, 1.5k/s, 500/h or 3/m for packets, 10MB/s or 100Mbit/s
/// for bytes. A source is an IPv4 address or an IPv6 prefix, by default a /64. Rules and counters stay in the kernel
/// when a command ends.
///
/// Exit status: 0 done, 1 negative answer, 2 error.
#[derive(Debug, Parser)]
#[command(name = "ratelimit", version = VERSION, max_term_width = 100)]
struct Arguments {
    /// Print JSON
    #[arg(short, long, global = true, help_heading = "Global options")]
    json: bool,
    /// Folder that holds the program and maps of an instance. Each folder is an instance with its own rules
    #[arg(long, global = true, value_name = "DIR", env = "RATELIMIT_PINS", default_value = PINS, help_heading = "Global options")]
    pins: PathBuf,
    /// Run in this network namespace: a name of `ip netns list`, or a path
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), help_heading = "Global options")]
    netns: Option<String>,
    /// Do not add an allow rule for the address of your SSH session
    #[arg(long, global = true, help_heading = "Global options")]
    no_allow_ssh: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Attach to network interfaces; without a rate and without rules, packets are only counted
    ///
    /// Attaches the program to network interfaces, and sets the default limit if a rate is given. Without a rate and
    /// without rules, every packet passes and is counted. On an interface that is attached already, the command
    /// replaces the program by this version's, without a gap, and changes the settings that are given.
    ///
    /// Like each command that changes rules or settings, it allows the address of your SSH session.
    Attach(attach::Arguments),
    /// Keep what `attach --confirm` has done
    Confirm,
    /// Detach from interfaces; --all also removes every rule
    Detach(detach::Arguments),
    /// Change settings that all interfaces of an instance share
    ///
    /// Changes settings of a running instance, at once and without a gap. All its interfaces share them. Settings that
    /// are not given stay.
    Set(set::Arguments),
    /// Convert an instance of another version to this version
    ///
    /// Converts an instance that another version of ratelimit has attached. Rules, buckets and counters are kept, and
    /// no packet passes unchecked meanwhile. Needs full root privileges.
    Upgrade,
    /// Set, delete or list limits for sources
    #[command(subcommand)]
    Limit(limit::Command),
    /// Let all packets of a source pass
    #[command(subcommand)]
    Allow(access::AllowCommand),
    /// Drop all packets of a source
    #[command(subcommand)]
    Deny(access::DenyCommand),
    /// Deny or limit the sources on a list, which is replaced as a whole
    #[command(subcommand)]
    List(lists::Command),
    /// Count each packet of a service as several packets
    #[command(subcommand)]
    Cost(cost::Command),
    /// Run a daemon that applies a configuration file and follows its changes
    ///
    /// Applies a configuration file, and applies it again whenever it changes. Limits stay in force when the daemon
    /// ends.
    Run(run::Arguments),
    /// Make the daemon read its configuration file now
    ///
    /// Makes the daemon read its configuration file now. The daemon also does so by itself when the file changes.
    Reload(reload::Arguments),
    /// Print what is in force as a configuration file
    ///
    /// Prints the interfaces, settings, costs and rules that are in force as a configuration file. Bans are left out.
    /// The tables metrics, state and fleet are left out too, because only the daemon knows them.
    Save,
    /// Answer applications and proxies whether a request may go on
    ///
    /// Answers by HTTP whether a client may make a request, by the rules of a file. Needs no privileges. SIGHUP
    /// makes it read the file again, and SIGTERM ends it after the calls that have begun.
    #[cfg_attr(not(feature = "server"), command(hide = true, about = "Not in this build", long_about = None))]
    Serve(ServeArguments),
    /// Read and change the rules of `ratelimit serve` while it runs
    #[cfg_attr(not(feature = "server"), command(hide = true, about = "Not in this build", long_about = None))]
    #[cfg_attr(feature = "server", command(subcommand))]
    Rules(RulesCommand),
    #[cfg_attr(not(feature = "server"), command(hide = true, about = "Not in this build", long_about = None))]
    Usage(UsageArguments),
    /// Show the fleet that this host shares limits with, and change its shared rules
    #[cfg_attr(not(feature = "fleet"), command(hide = true, about = "Not in this build", long_about = None))]
    #[cfg_attr(feature = "fleet", command(subcommand))]
    Fleet(FleetCommand),
    /// Print the daemon's metrics once, in the format of Prometheus
    Metrics,
    /// List the problems of a configuration file; changes nothing
    Check(check::Arguments),
    /// Look for problems of this host and how to fix them; changes nothing
    ///
    /// Checks privileges, kernel, interfaces, one second of traffic, tables, your SSH session and other rate limiters.
    /// Works before and after `attach`. Exit status 1 if there is a warning or an error.
    Doctor(doctor::Arguments),
    /// Show what is limited, what happens now, and what to do
    Status(status::Arguments),
    /// Show what happens now on a live screen
    ///
    /// Shows sources, services, reasons and interfaces with their packets per second, once per second. Keys sort, filter
    /// and pause, and ban or allow a source: `?` lists them. Needs a terminal of 80 columns and 24 lines. The environment
    /// variable NO_COLOR turns colors off.
    #[cfg_attr(not(feature = "top"), command(hide = true, about = "Not in this build", long_about = None))]
    Top,
    /// Print events until Ctrl-C: when a source is throttled or banned, and when that ends
    ///
    /// A source is throttled when a limit refuses its packets. That ends when no packet was refused for 10 seconds. The
    /// kernel reports at most 100 events per second. If there are more, a line tells how many were left out.
    Events(events::Arguments),
    /// List tracked sources with their packets
    ///
    /// For sources within their limit, one packet in 256 is recorded. So their passed packets are an estimate, also after
    /// they were banned, denied or allowed, and a quiet source may be missing. `~` marks estimates, and `<` the upper
    /// bound of a rate that one or two samples made. `attach --front off` counts every packet instead.
    ///
    /// Dropped packets are exact while a CPU drops fewer than 30,000 per second. During a flood, one of 64 is counted for
    /// all, and `~` marks the estimate. Drops with the reasons not-admitted and over-unknown are only in `ratelimit
    /// status`.
    Sources(sources::Arguments),
    /// Propose limits from the traffic of the next minute; changes nothing
    ///
    /// Reads the counters of all sources once per second, or less often with very many sources. Then it proposes a limit
    /// for each service that has rules of its own, and one for all other packets. It names the sources that the limit
    /// would have limited. Without a limit, every packet is counted. With cells and a limit, only samples are.
    Suggest(suggest::Arguments),
    Replay(replay::Arguments),
    /// Tell which rule decides about an address, and what it outranks
    ///
    /// Shows the rule, the default, the list or the ban that decides about packets from an address, everything that it
    /// outranks, and what was counted for the source. With `--unknown`, it tells whether the source is known.
    Why(why::Arguments),
    /// Print the completions of commands and options for a shell
    Completions {
        shell: completions::Shell,
    },
    /// Write the manual pages to a folder
    Manual {
        /// Folder for the pages. The command creates it if it is missing
        folder: PathBuf,
    },
}

impl Command {
    /// Returns whether it changes an instance.
    fn is_change(&self) -> bool {
        match self {
            Self::Attach(_) | Self::Confirm | Self::Detach(_) | Self::Set(_) | Self::Upgrade => true,
            Self::Limit(command) => !matches!(command, limit::Command::List(_)),
            Self::Allow(command) => !matches!(command, access::AllowCommand::List(_)),
            Self::Deny(command) => !matches!(command, access::DenyCommand::List(_)),
            Self::List(command) => matches!(command, lists::Command::Set { .. } | lists::Command::Del { .. }),
            #[cfg(feature = "fleet")]
            Self::Fleet(command) => command.is_change(),
            Self::Cost(command) => !matches!(command, cost::Command::List),
            _ => false,
        }
    }
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            // This is help or the version. A closed pipe is not an error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            place::name_as_written(env::args_os().skip(1));
            return fail(&parse_error::one_line(&error, Arguments::command(), env::args().skip(1)));
        }
    };
    // Signals wait meanwhile, so a reader that takes nothing misses the line.
    lock::say_waits_with(|text| {
        if journal::is_ready() {
            journal::say(journal::Level::Info, text);
        }
    });
    match run(arguments) {
        Ok(Answer::Done | Answer::Unchanged) => ExitCode::SUCCESS,
        Ok(Answer::Negative) => ExitCode::FAILURE,
        Ok(Answer::Reported(status)) => ExitCode::from(status),
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
    let words = iter::once("ratelimit").chain(words);
    Arguments::try_parse_from(words).map(drop).or_else(|error| if error.use_stderr() { Err(error) } else { Ok(()) })
}

fn run(arguments: Arguments) -> Result<Answer> {
    let Arguments { json, pins, netns, no_allow_ssh, command } = arguments;
    place::name(&pins, netns.as_deref());
    if let Some(name) = netns {
        namespace::enter(&name)?;
    }
    if no_allow_ssh {
        ssh::decline();
    }
    let output = Output { json };
    let is_change = command.is_change();
    let answer = answer(command, &pins, output);
    let is_done = match &answer {
        Ok(answer) => *answer == Answer::Done,
        Err(error) => output::is_done(error),
    };
    if is_change && is_done {
        // The change itself is done.
        changes::record_command(&pins).unwrap_or_else(|error| {
            journal::say(journal::Level::Warning, &format!("done, but not recorded for `ratelimit events`: {error}"));
        });
    }
    answer
}

/// Runs a command.
fn answer(command: Command, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        Command::Attach(arguments) => attach::run(&arguments, pins, output),
        Command::Confirm => confirm::run(pins, output),
        Command::Detach(arguments) => detach::run(&arguments, pins, output),
        Command::Set(arguments) => set::run(&arguments, pins, output),
        Command::Upgrade => upgrade::run(pins, output),
        Command::Limit(command) => limit::run(&command, pins, output),
        Command::Allow(command) => access::allow(&command, pins, output),
        Command::Deny(command) => access::deny(&command, pins, output),
        Command::List(command) => lists::run(&command, pins, output),
        Command::Cost(command) => cost::run(&command, pins, output),
        Command::Run(arguments) => run::run(&arguments, pins),
        Command::Reload(arguments) => reload::run(&arguments, pins, output),
        #[cfg(feature = "server")]
        Command::Serve(arguments) => serve::run(&arguments),
        #[cfg(feature = "server")]
        Command::Rules(command) => requests::run(&command, output),
        #[cfg(feature = "server")]
        Command::Usage(arguments) => usage::run(&arguments, output),
        #[cfg(not(feature = "server"))]
        Command::Serve(_) | Command::Rules(_) | Command::Usage(_) => absent::answer("server"),
        Command::Save => save::run(pins, output),
        #[cfg(feature = "fleet")]
        Command::Fleet(command) => fleet::run(&command, pins, output),
        #[cfg(not(feature = "fleet"))]
        Command::Fleet(_) => absent::answer("fleet"),
        Command::Metrics => metrics::run(pins, output),
        Command::Check(arguments) => check::run(&arguments, pins, output),
        Command::Doctor(arguments) => doctor::run(&arguments, pins, output),
        Command::Status(arguments) => status::run(&arguments, pins, output),
        #[cfg(feature = "top")]
        Command::Top => top::run(pins, output),
        #[cfg(not(feature = "top"))]
        Command::Top => absent::answer("top"),
        Command::Events(arguments) => events::run(&arguments, pins, output),
        Command::Sources(arguments) => sources::run(&arguments, pins, output),
        Command::Suggest(arguments) => suggest::run(&arguments, pins, output),
        Command::Replay(arguments) => replay::run(&arguments, output),
        Command::Why(arguments) => why::run(&arguments, pins, output),
        Command::Completions { shell } => completions::print(shell, Arguments::command()),
        Command::Manual { folder } => manual::write(&folder, Arguments::command()),
    }
}

fn fail(message: &str) -> ExitCode {
    journal::say(journal::Level::Error, message);
    ExitCode::from(2)
}

#[cfg(test)]
mod tests;
