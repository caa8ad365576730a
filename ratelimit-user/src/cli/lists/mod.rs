//! `ratelimit list set | import | show | del | list`.

mod how;
mod import;
mod set;
mod show;

use std::path::Path;

use anyhow::{Result, ensure};
use ratelimit_dataplane::{
    lists::listing::{CROWDSEC, OF_FLEET, is_name},
    sys::host,
};

use self::{how::How, import::Filter, set::From};
use crate::cli::print::{answer::Answer, output::Output};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Set a list, or replace it as a whole
    ///
    /// Reads addresses, prefixes and ranges as feeds publish them, one per line, and puts all of them in force at once. A
    /// list of this name is replaced: each packet sees the old list or the new one. Lines that cannot be used are named
    /// and skipped.
    ///
    /// The list denies its sources, unless a limit is given. A rule allow outranks every list, unless a limit for a longer
    /// prefix takes the source out of it.
    Set {
        /// Letters, digits, `.`, `_` and `-`, up to 32
        #[arg(value_parser = name)]
        name: String,
        /// File with the list, or - for standard input
        #[arg(value_name = "FILE|-")]
        file: String,
        #[command(flatten)]
        how: How,
    },
    /// Set a list to the entries of a set of nftables or ipset
    ///
    /// Reads the set once, by the program of its packet filter. The set stays as it is. A list of this name is replaced as
    /// a whole, as by `list set`.
    Import {
        /// The packet filter that has the set
        filter: Filter,
        /// Name of the set
        set: String,
        /// Family and name of the set's table in nftables, if several tables have such a set: `inet filter`
        #[arg(long, value_name = "FAMILY TABLE")]
        table: Option<String>,
        /// Name of the list [default: that of the set]
        #[arg(long, value_parser = name)]
        name: Option<String>,
        #[command(flatten)]
        how: How,
    },
    /// Show a list: its action, its size, its end and what it has refused
    Show {
        /// Name of the list
        #[arg(value_parser = any_name)]
        name: String,
        /// Print its entries instead, one per line
        #[arg(long)]
        entries: bool,
    },
    /// Delete a list with all its entries
    Del {
        /// Name of the list
        #[arg(value_parser = any_name)]
        name: String,
        /// Exit with status 0, too, if there is no such list
        #[arg(long)]
        if_exists: bool,
        /// Delete the list even if that blocks your SSH session
        #[arg(long)]
        force: bool,
    },
    /// List the lists
    List,
}

fn name(text: &str) -> Result<String, String> {
    let rule = "expected up to 32 letters, digits, `.`, `_` and `-`, beginning with none of `.` and `-`";
    if is_name(text) { Ok(text.to_owned()) } else { Err(rule.to_owned()) }
}

/// Returns the name of a list, which the fleet or CrowdSec may have set.
fn any_name(text: &str) -> Result<String, String> {
    if text == CROWDSEC {
        return Ok(text.to_owned());
    }
    name(text.strip_prefix(OF_FLEET).unwrap_or(text)).map(|_| text.to_owned())
}

pub(crate) fn run(command: &Command, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    match command {
        Command::Set { name, file, how } => set::run(name, &From::File(file), how, pins, output),
        Command::Import { filter, set, table, name, how } => {
            let name = name.as_deref().unwrap_or(set);
            ensure!(is_name(name), "{name} is no name of a list: give one with --name");
            let entries = import::read(*filter, set, table.as_deref())?;
            set::run(name, &From::Set(set, &entries), how, pins, output)
        }
        Command::Show { name, entries } => show::show(name, *entries, pins, output),
        Command::Del { name, if_exists, force } => set::delete(name, *if_exists, *force, pins, output),
        Command::List => show::list(pins, output),
    }
}
