//! `ratelimit fleet rules set | del | list | log | revert`.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Result, anyhow, bail};
use jiff::Timestamp;
use ratelimit_base::text::{excerpt::escaped, prefix::Prefix, units};
use ratelimit_common::{limits::policy::Policy, rules::comment::Comment};
use ratelimit_daemon::{
    config::{Planned, shared},
    controller::{
        events::changes::operator,
        socket::{
            client::SocketError,
            request::{Reply, Request},
            rules::{RulesReply, RulesRequest},
        },
    },
    limit::{Rates, write},
};
use ratelimit_dataplane::rules::target::{Sources, Target};
use ratelimit_protocol::fleet::Version;
use serde::Serialize;

use super::{ask::ask, log};
use crate::cli::{
    print::{
        answer::Answer,
        output::{Output, table},
    },
    rules::sources_argument::Given,
};

/// The section of the help for options after those of the limit itself.
const OPTIONS: Option<&str> = None;
/// The most bytes of a reason.
const WHY: usize = 120;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Deny or limit sources on all hosts that accept shared rules
    ///
    /// Sets one shared rule for each prefix, in place of the one that it has. All hosts that accept shared rules put the
    /// new version in force within seconds, or tell in `ratelimit fleet status` why they do not. A shared limit must not
    /// admit more than the default limit of a host. Each own rule of a host outranks shared limits, and its rules allow
    /// outrank shared denies.
    Set {
        /// Addresses or prefixes
        #[arg(value_name = "CIDR", required = true)]
        sources: Vec<Given<Prefix>>,
        /// Drop all packets of the sources
        #[arg(long, conflicts_with_all = ["packets", "bytes", "burst", "algorithm"])]
        deny: bool,
        #[command(flatten)]
        rates: Box<Rates>,
        /// Delete the rule after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::duration, help_heading = OPTIONS)]
        life: Option<Duration>,
        /// One line of at most 64 bytes, which `fleet rules list` shows
        #[arg(long, value_name = "TEXT", value_parser = |text: &str| Comment::new(text), help_heading = OPTIONS)]
        comment: Option<Comment>,
        #[command(flatten)]
        change: Change,
    },
    /// Delete shared rules
    Del {
        /// Addresses or prefixes, exactly as they were set
        #[arg(value_name = "CIDR", required = true)]
        sources: Vec<Given<Prefix>>,
        #[command(flatten)]
        change: Change,
    },
    /// List the shared rules
    List,
    /// List the versions of the shared rules: when, who and why
    Log,
    /// Put an earlier version of the shared rules in force again, as a new version
    Revert {
        /// Number of the version, as `fleet rules log` shows it
        version: u64,
        #[command(flatten)]
        change: Change,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Change {
    /// Why the rules change: one line of at most 120 bytes, which `fleet rules log` shows
    #[arg(long, value_name = "TEXT", value_parser = why, help_heading = OPTIONS)]
    why: Option<String>,
    /// Change the rules in the engine although it has lost newer ones
    ///
    /// Without this, a host that does not know the newest rules refuses to change them, while another host says that it has
    /// them. Hosts keep a newer version that they have.
    #[arg(long, help_heading = OPTIONS)]
    anew: bool,
}

impl Change {
    fn why(&self) -> String {
        self.why.clone().unwrap_or_default()
    }
}

fn why(text: &str) -> Result<String, String> {
    let is_line = text.len() <= WHY && !text.contains(char::is_control);
    is_line.then(|| text.to_owned()).ok_or_else(|| format!("expected one line of at most {WHY} bytes"))
}

impl Command {
    /// Returns whether it changes something.
    pub(super) fn is_change(&self) -> bool {
        !matches!(self, Self::List | Self::Log)
    }

    fn request(&self) -> Result<RulesRequest> {
        Ok(match self {
            Self::Set { sources, deny, rates, life, comment, change } => {
                sources.iter().try_for_each(Given::say_cut)?;
                let until = life.map(|life| SystemTime::now() + life);
                let comment = comment.filter(|comment| *comment != Comment::EMPTY).map(Arc::new);
                let rule = |Given { value: source, .. }: &Given<Prefix>| {
                    let spec = match (deny, rates.is_empty()) {
                        (true, _) => Policy::DENIED.into(),
                        (false, true) => bail!("give --deny or a rate, such as --packets 10/s"),
                        (false, false) => rates.some_terms(Sources::Prefix(*source))?,
                    };
                    Ok(Planned {
                        target: Target::prefix(*source),
                        spec: Arc::new(spec),
                        until,
                        comment: comment.clone(),
                    })
                };
                let rules: Vec<_> = sources.iter().map(rule).collect::<Result<_>>()?;
                RulesRequest::Set { text: text(&rules)?, why: change.why(), anew: change.anew }
            }
            Self::Del { sources, change } => {
                sources.iter().try_for_each(Given::say_cut)?;
                let spec = Arc::new(Policy::DENIED.into());
                let rule = |Given { value: source, .. }: &Given<Prefix>| {
                    let (target, spec) = (Target::prefix(*source), Arc::clone(&spec));
                    Planned { target, spec, until: None, comment: None }
                };
                let rules: Vec<_> = sources.iter().map(rule).collect();
                RulesRequest::Delete { text: text(&rules)?, why: change.why(), anew: change.anew }
            }
            Self::List => RulesRequest::List,
            Self::Log => RulesRequest::Log,
            Self::Revert { version, change } => {
                let why = change.why.clone().unwrap_or_else(|| format!("revert to {version}"));
                RulesRequest::Revert { version: *version, why, anew: change.anew }
            }
        })
    }
}

/// Writes rules for the daemon, which are checked here too.
fn text(rules: &[Planned]) -> Result<String> {
    let text = shared::write(rules).map_err(|error| anyhow!(error))?;
    shared::read(&text).map_err(|problem| anyhow!(problem))?;
    Ok(text)
}

pub(super) fn run(command: &Command, pins: &Path, output: Output) -> Result<Answer> {
    match ask(pins, Request::Rules(command.request()?, operator()))? {
        Reply::Rules(RulesReply::Version(version)) => list(&version, output),
        Reply::Rules(RulesReply::Log(versions)) => log::print(&versions, output),
        Reply::Rules(RulesReply::Written { version, refused, accepts }) => written(version, refused, accepts, output),
        Reply::Rules(RulesReply::Unchanged) => {
            output.print(&Written { version: None, refused: None }, |out| writeln!(out, "nothing to change"))?;
            Ok(Answer::Negative)
        }
        _ => bail!(SocketError::NoAnswer),
    }
}

/// The result of a change.
#[derive(Debug, Serialize)]
struct Written {
    /// The new version. Null if nothing has changed.
    version: Option<u64>,
    /// Why it is not in force on this host.
    refused: Option<String>,
}

fn written(version: u64, refused: Option<String>, accepts: bool, output: Output) -> Result<Answer> {
    output.print(&Written { version: Some(version), refused: refused.clone() }, |out| {
        writeln!(out, "version {version} is written: `ratelimit fleet status` shows which hosts have it")?;
        match refused {
            _ if !accepts => writeln!(out, "  this host does not accept shared rules: see accept in [fleet]"),
            Some(why) => writeln!(out, "  this host refuses it: {}", escaped(&why)),
            None => Ok(()),
        }
    })?;
    Ok(Answer::Done)
}

/// A shared rule in the output.
#[derive(Debug, Serialize)]
struct Row {
    source: String,
    /// `deny` or `limit`.
    action: &'static str,
    /// The rule in words.
    text: String,
    until: Option<String>,
    comment: Option<String>,
}

#[derive(Debug, Serialize)]
struct Rules {
    version: u64,
    rules: Vec<Row>,
}

fn list(version: &Version, output: Output) -> Result<Answer> {
    let rules = shared::read(&version.text)
        .map_err(|problem| anyhow!("version {} is not for this version of ratelimit: {problem}", version.version))?;
    let row = |rule: &Planned| {
        let is_deny = rule.spec.policy == Policy::DENIED;
        Row {
            source: rule.target.to_string(),
            action: if is_deny { "deny" } else { "limit" },
            text: if is_deny { "deny".to_owned() } else { write::limit(&rule.spec) },
            until: rule.until.and_then(|until| Timestamp::try_from(until).ok()).map(|until| until.to_string()),
            comment: rule.comment.as_ref().and_then(|comment| comment.get()).map(ToOwned::to_owned),
        }
    };
    let rules = Rules { version: version.version, rules: rules.iter().map(row).collect() };
    output.print(&rules, |out| {
        writeln!(out, "version {}", rules.version)?;
        let cells = |row: &Row| {
            let text = |text: &Option<String>| text.as_deref().map(escaped).unwrap_or_default();
            [row.source.clone(), row.text.clone(), text(&row.until), text(&row.comment)]
        };
        let rows: Vec<_> = rules.rules.iter().map(cells).collect();
        if rows.is_empty() { Ok(()) } else { table(out, ["source", "rule", "until", "comment"], &rows) }
    })?;
    Ok(Answer::Done)
}
