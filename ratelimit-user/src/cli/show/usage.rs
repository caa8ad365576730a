//! `ratelimit usage`: what clients of the server for requests have used.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::ValueEnum;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::{
    cli::print::{
        answer::Answer,
        output::{self, Output},
    },
    config::{
        problem::ConfigError,
        requests::{self, Requests},
    },
    fleet::{address::Address, engine::Engine, error::Error, way::Place},
    text::{excerpt::excerpt, units},
    usage::{self, Found, Order, Pair, Pairs, Reader, SharedFound, SharedReader, Step, Totals, UsageError, UsagePlace},
};

/// Time for a call of the engine.
const PATIENCE: Duration = Duration::from_secs(2);
/// More rules than a server has at a time.
const RULES: u32 = 2_000;
/// Rules that a message names.
const SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Attributes of the client: `user=17`, or `ip=2001:db8::/32`. All clients with these values are shown
    #[arg(value_name = "NAME=VALUE")]
    client: Vec<Pair>,
    /// Configuration file of the server, which says where usage is kept
    #[arg(short, long, value_name = "FILE", required_unless_present = "file", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// The file with usage itself
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only usage under this rule
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// How far to look back, in whole hours
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = units::duration)]
    since: Duration,
    /// Time of each row for a client, in UTC
    #[arg(long, value_enum, default_value = "hour", requires = "client")]
    by: By,
    /// Without a client, list so many clients
    #[arg(long, value_name = "N", default_value = "20", conflicts_with = "client", value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// Without a client, order: the client with the most of this comes first
    #[arg(long, value_enum, default_value = "refused", conflicts_with = "client")]
    sort: Sort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Hour,
    Day,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sort {
    Refused,
    Admitted,
    Cost,
}

#[derive(Debug, Serialize)]
struct Row {
    rule: String,
    #[serde(serialize_with = "as_object")]
    client: Pairs,
    /// The start of the hour or day. None for the whole time.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_at: Option<Timestamp>,
    admitted: u64,
    cost: u64,
    refused: u64,
    last_seen_at: Timestamp,
}

fn as_object<S: Serializer>(pairs: &Pairs, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

impl Row {
    fn of(found: Found) -> Result<Self> {
        let Found { rule, client, start, totals: Totals { admitted, cost, refused, last } } = found;
        let start_at = start.map(time).transpose()?;
        Ok(Self { rule, client, start_at, admitted, cost, refused, last_seen_at: time(last)? })
    }
}

fn time(seconds: u64) -> Result<Timestamp> {
    Ok(Timestamp::from_second(i64::try_from(seconds)?)?)
}

/// Fails if a rule has no usage of any client. `known` are the rules that have.
fn expect(rule: &str, known: &[String]) -> Result<()> {
    if known.iter().any(|name| name == rule) || known.len() >= RULES as usize {
        return Ok(());
    }
    let (first, more) = known.split_at(known.len().min(SHOWN));
    let known = if known.is_empty() { "none".to_owned() } else { first.join(", ") };
    let known = if more.is_empty() { known } else { format!("{known} and {} more", more.len()) };
    bail!("--rule: there is no usage under the rule {}: rules with usage are {known}", excerpt(rule));
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<Answer> {
    let Arguments { client, rule, by, top, sort, .. } = arguments;
    let now = Timestamp::now();
    let since = u64::try_from(now.as_second())?.saturating_sub(arguments.since.as_secs());
    let order = match sort {
        Sort::Refused => Order::Refused,
        Sort::Admitted => Order::Admitted,
        Sort::Cost => Order::Cost,
    };
    let step = if *by == By::Day { Step::Day } else { Step::Hour };
    let rule = rule.as_deref();
    let found = match source(arguments)? {
        Source::File(path) => {
            let reader = Reader::open(&path).map_err(|error| hint(error, arguments))?;
            let found = match &client[..] {
                [] => reader.top(*top, rule, since, order)?,
                client => reader.of(client, rule, since, step)?,
            };
            if let Some(rule) = rule.filter(|_| found.is_empty()) {
                expect(rule, &reader.rules(RULES)?)?;
            }
            found
        }
        Source::Engine(place) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let read = async {
                let engine = Engine::connect(&place, PATIENCE).await?;
                let reader = SharedReader::of(&engine);
                let found = match &client[..] {
                    [] => reader.top(*top, rule, since, order).await?,
                    client => reader.of_clients(client, rule, since, step).await?,
                };
                let known = match (found.found.is_empty(), rule) {
                    (true, Some(_)) => reader.rules().await.map(Some),
                    _ => Ok(None),
                };
                // A look at all rows is not needed for the answer.
                let known = known.or_else(|error| if let Error::Excess(_) = error { Ok(None) } else { Err(error) })?;
                Ok::<_, Error>((found, known))
            };
            let read = runtime.block_on(read);
            let (SharedFound { found, left_out }, known) =
                read.with_context(|| format!("usage cannot be read from the engine at {place}"))?;
            if left_out != 0 {
                let rows = output::count(left_out, "row");
                writeln!(io::stderr(), "ratelimit: warning: {rows} of the engine at {place} make no sense: left out")?;
            }
            if let Some((rule, known)) = rule.zip(known) {
                expect(rule, &known)?;
            }
            found
        }
    };
    let rows = found.into_iter().map(Row::of).collect::<Result<Vec<_>>>()?;
    let begin = time(since / 3_600 * 3_600)?;
    output.print(&rows, |out| {
        if rows.is_empty() {
            return match &client[..] {
                [] => writeln!(out, "no usage since {}", hour(begin)),
                all => {
                    let all: Vec<_> = all.iter().map(Pair::to_string).collect();
                    let (all, begin) = (all.join(" "), hour(begin));
                    writeln!(
                        out,
                        "{all}: nothing known since {begin} (earlier: --since 30d; clients: `ratelimit usage`)"
                    )
                }
            };
        }
        write(out, &rows, *by, now)
    })?;
    Ok(if rows.is_empty() && !client.is_empty() { Answer::Negative } else { Answer::Done })
}

/// Returns an error with what to do if `--file` names another file than the one with usage.
fn hint(error: UsageError, Arguments { file, .. }: &Arguments) -> anyhow::Error {
    match (&error, file) {
        (UsageError::Foreign(path), Some(_)) => anyhow!(
            "{}: this is no file with usage: name the file of the key `usage` in [serve], or the configuration by --config",
            path.display()
        ),
        (UsageError::Missing(path), Some(_)) => anyhow!(
            "{}: no such file: name the file of the key `usage` in [serve], or the configuration by --config",
            path.display()
        ),
        _ => error.into(),
    }
}

/// Where usage is.
enum Source<'a> {
    File(Cow<'a, Path>),
    Engine(Address),
}

fn source(arguments: &Arguments) -> Result<Source<'_>> {
    if let Some(file) = &arguments.file {
        return Ok(Source::File(file.into()));
    }
    let Some(config) = &arguments.config else { bail!("name a file: --config FILE or --file FILE") };
    let Requests { usage, fleet, .. } = requests::read(config).map_err(|error| match error {
        ConfigError::Unreadable { path, cause } if cause.kind() == ErrorKind::InvalidData => {
            anyhow!("{}: this is no text: if it is the file with usage, name it by --file", path.display())
        }
        error => error.into(),
    })?;
    match (usage, fleet.map(|fleet| fleet.engine)) {
        (Some(UsagePlace::File(file)), _) => Ok(Source::File(file.path.into())),
        (Some(UsagePlace::Fleet(_)), Some(Place::Server(address))) => Ok(Source::Engine(address)),
        (Some(UsagePlace::Fleet(_)), _) => {
            bail!("{}: usage = \"fleet\" needs a table [fleet] with a server as engine", config.display())
        }
        (None, _) => bail!("{}: no usage is kept: add `usage` to the table [serve]", config.display()),
    }
}

fn write(out: &mut dyn io::Write, rows: &[Row], by: By, now: Timestamp) -> io::Result<()> {
    let cells = |row: &Row| {
        let start = row.start_at.map(|start| if by == By::Day { day(start) } else { hour(start) });
        let age = now.duration_since(row.last_seen_at);
        let age = match Duration::try_from(age) {
            Ok(age) if age.as_secs() > 0 => format!("{} ago", units::write_duration(age)),
            _ => "now".to_owned(),
        };
        [
            start.unwrap_or_default(),
            row.rule.clone(),
            usage::text(&row.client),
            row.admitted.to_string(),
            row.cost.to_string(),
            row.refused.to_string(),
            age,
        ]
    };
    let head = if by == By::Day { "day" } else { "hour" };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    output::table(out, [head, "rule", "client", "admitted", "cost", "refused", "last seen"], &rows)
}

fn hour(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:00Z").to_string()
}

fn day(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}
