//! `ratelimit limit set | del | list`.

use std::path::Path;

use anyhow::Result;
use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{identity::service::Service, rules::comment::Comment};
use ratelimit_daemon::{
    edits::limit::{End, is_limit},
    limit::Rates,
};
use ratelimit_dataplane::{
    rules::{
        spec::RuleSpec,
        target::{Sources, Target},
    },
    sys::host,
};

use super::{
    change::comment,
    delete,
    delete_many::{self, Rules},
    hits, limit_row,
    limit_set::{self, Setting},
    sources_argument::{OneOrMany, listed},
};
use crate::cli::print::{answer::Answer, output::Output};

/// The section of the help for options after those of the limit itself.
const OPTIONS: Option<&str> = None;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Limit each source of a prefix, or each source without another rule (`default`)
    ///
    /// Limits each source of a prefix, or each source without another rule (`default`). On a limit that exists, the
    /// command changes what is given and keeps the rest. --replace starts anew. With several prefixes, all get the
    /// limit, or none.
    Set {
        /// Addresses, prefixes or `default`; or - to read prefixes from standard input, one per line. Each source in a
        /// prefix gets the limit for itself. An IPv6 prefix longer than `attach --ipv6-prefix` is one source
        #[arg(value_name = "CIDR|default|-", required = true)]
        sources: Vec<OneOrMany<Sources>>,
        #[command(flatten)]
        rates: Box<Rates>,
        /// Only packets of this service: tcp, udp or sctp, also with a port or a range of ports (udp/53, tcp/8000-8099);
        /// tcp-syn (new connections); icmp, gre, esp, ah, ipip; or a protocol number. If several services match, the
        /// narrowest one with a rule for the source counts
        #[arg(long, value_name = "PROTO[/PORT[-PORT]]", help_heading = OPTIONS)]
        service: Option<ServiceName>,
        /// Delete the rule after this time: 90s, 10m, 2h, 7d. never: the rule stays
        #[arg(long = "for", value_name = "DURATION|never", value_parser = limit_set::end, help_heading = OPTIONS)]
        end: Option<End>,
        /// One line of at most 64 bytes, which `limit list` and `save` show. An empty text removes it
        #[arg(long, value_name = "TEXT", value_parser = comment, help_heading = OPTIONS)]
        comment: Option<Comment>,
        /// Keep nothing of a limit that exists
        #[arg(long, help_heading = OPTIONS)]
        replace: bool,
        /// Set the limit even if it restricts or blocks your SSH session, or replaces a rule allow
        #[arg(long, help_heading = OPTIONS)]
        force: bool,
        /// With -, skip lines that are invalid or repeat another line. Without this option, one such line stops the
        /// command before it changes anything
        #[arg(long, help_heading = OPTIONS)]
        skip_bad: bool,
    },
    /// Delete the limits of prefixes, or of `default`
    Del {
        /// Addresses, prefixes or `default`, exactly as they were set; or - to read prefixes from standard input, one
        /// per line
        #[arg(value_name = "CIDR|default|-", required = true)]
        sources: Vec<OneOrMany<Sources>>,
        /// Service, exactly as it was set
        #[arg(long, value_name = "PROTO[/PORT[-PORT]]")]
        service: Option<ServiceName>,
        /// Delete the limit even if that blocks your SSH session
        #[arg(long)]
        force: bool,
        /// With -, skip lines that are invalid or have no limit. Without this option, one such line stops the command
        /// before it deletes anything
        #[arg(long)]
        skip_bad: bool,
        /// Exit with status 0, too, if there is no such limit
        #[arg(long)]
        if_exists: bool,
    },
    /// List the limits
    List(hits::Arguments),
}

pub(crate) fn run(command: &Command, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    match command {
        Command::Set { sources, rates, service, end, comment, replace, force, skip_bad } => {
            let (comment, replace, force) = (*comment, *replace, *force);
            let setting = Setting { rates, service: of(*service), end: *end, comment, replace, force };
            match listed(sources, *skip_bad)? {
                Some((sources, cuts)) => setting.each(&sources, &cuts, pins, output),
                None => setting.many(*skip_bad, pins, output),
            }
        }
        Command::Del { sources, service, force, skip_bad, if_exists } => {
            let (service, force, skip_bad, if_exists) = (of(*service), *force, *skip_bad, *if_exists);
            let (name, matches) = ("limit", &|spec: &RuleSpec, _: Option<&str>| is_limit(spec));
            let rules = Rules { service, force, skip_bad, if_exists, name, matches, owner: None, lifts_bans: false };
            match listed(sources, skip_bad)? {
                Some((sources, cuts)) => {
                    let targets: Vec<_> = sources.iter().map(|sources| Target::from(*sources).of(service)).collect();
                    delete::delete(&rules, &targets, &cuts, "limit deleted", pins, output)
                }
                None => delete_many::delete(&rules, pins, output),
            }
        }
        Command::List(hits) => limit_row::list(*hits, pins, output),
    }
}

fn of(service: Option<ServiceName>) -> Service {
    service.map_or(Service::Any, |service| service.0)
}
