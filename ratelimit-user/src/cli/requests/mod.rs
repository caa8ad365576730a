//! `ratelimit rules list | get | set | del | log`: the rules of a running server for requests.

mod call;
mod change;
mod file;
mod keys;
mod read;
mod server;

use anyhow::Result;
use ratelimit_server::config as requests;

use self::{keys::RuleOptions, server::ServerOptions};
use crate::cli::print::{answer::Answer, output::Output};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the rules that the token may read
    List {
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Print one rule, as `set --file` takes it
    Get {
        /// Name of the rule
        #[arg(value_parser = rule_name)]
        name: String,
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Create or change a rule
    ///
    /// Options change only the keys that they name. A file replaces the whole rule.
    ///
    /// Reads the version of the rule, and replaces that version. If another caller changes the rule meanwhile, the
    /// command fails and changes nothing.
    Set {
        /// Name of the rule
        #[arg(value_parser = rule_name)]
        name: String,
        #[command(flatten)]
        rule: Box<RuleOptions>,
        /// Replace this version only; 0 only creates the rule
        #[arg(long, value_name = "N")]
        version: Option<u64>,
        /// Only check the rule, and show what would change
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Delete a rule
    #[command(visible_alias = "delete")]
    Del {
        /// Name of the rule
        #[arg(value_parser = rule_name)]
        name: String,
        /// Delete this version only
        #[arg(long, value_name = "N")]
        version: Option<u64>,
        #[command(flatten)]
        server: ServerOptions,
    },
    /// List the last changes: when, by which token, and what
    Log {
        /// The most changes
        #[arg(short = 'n', long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
        #[command(flatten)]
        server: ServerOptions,
    },
}

/// Reads the name of a rule. The server tells what else is wrong with it.
fn rule_name(name: &str) -> Result<String, &'static str> {
    if requests::is_reserved(name) {
        return Err("this name is reserved, so no rule has it: `ratelimit rules log` lists changes");
    }
    Ok(name.to_owned())
}

pub(crate) fn run(command: &Command, output: Output) -> Result<Answer> {
    match command {
        Command::List { server } => read::list(&server.open()?, output),
        Command::Get { name, server } => read::get(&server.open()?, name, output),
        Command::Log { limit, server } => read::log(&server.open()?, *limit, output),
        Command::Set { name, rule, version, dry_run, server } => {
            change::set(&server.open()?, name, rule, *version, *dry_run, output)
        }
        Command::Del { name, version, server } => change::delete(&server.open()?, name, *version, output),
    }
}
