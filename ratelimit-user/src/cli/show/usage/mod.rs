//! `ratelimit usage`: what clients of the server for requests have used.

mod missing;
mod place;

use std::{
    io::{self, Write as _},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use jiff::Timestamp;
use ratelimit_base::text::units;
use ratelimit_fleet::{engine::Engine, error::Error};
use ratelimit_server::usage::{self, Found, Order, Pair, Pairs, Reader, SharedFound, SharedReader, Step, Totals};
use serde::{Serialize, Serializer};

use self::{
    missing::RULES,
    place::{Place, Source},
};
use crate::cli::print::{
    answer::Answer,
    output::{self, Output},
};

/// Time for a call of the engine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Show what clients of `ratelimit serve` have used
///
/// Shows admitted and refused requests of a client by the hour, or the clients with the most of them. The server
/// keeps these totals if `usage` in its file names a file. Exit status 1 if nothing is known about a client.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Attributes of the client: `user=17`, or `ip=2001:db8::/32`. All clients with these values are shown
    #[arg(value_name = "NAME=VALUE")]
    client: Vec<Pair>,
    #[command(flatten)]
    place: Place,
    /// Only usage under this rule
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// How far to look back. The hour in which that begins is shown as a whole
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = units::duration)]
    since: Duration,
    /// Time of each row for a client, in UTC [default: hour]
    #[arg(long, value_enum)]
    by: Option<By>,
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

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<Answer> {
    let Arguments { client, place, rule, by, top, sort, .. } = arguments;
    ensure!(by.is_none() || !client.is_empty(), "--by needs the attributes of a client, such as user=17");
    missing::expect_once(client)?;
    let now = Timestamp::now();
    let since = u64::try_from(now.as_second())?.saturating_sub(arguments.since.as_secs());
    let order = match sort {
        Sort::Refused => Order::Refused,
        Sort::Admitted => Order::Admitted,
        Sort::Cost => Order::Cost,
    };
    let by = by.unwrap_or(By::Hour);
    let step = if by == By::Day { Step::Day } else { Step::Hour };
    let rule = rule.as_deref();
    let found = match place.source()? {
        Source::File(path) => {
            let reader = Reader::open(&path).map_err(|error| place.hint(error))?;
            let found = match &client[..] {
                [] => reader.top(*top, rule, since, order)?,
                client => reader.of(client, rule, since, step)?,
            };
            // A look for names that fails does not change the answer.
            if let Some(rule) = rule.filter(|_| found.is_empty()) {
                reader.rules(RULES).map_or(Ok(()), |known| missing::expect_rule(rule, &known))?;
            }
            if found.is_empty() && !client.is_empty() {
                reader.attributes(rule).map_or(Ok(()), |known| missing::expect_attributes(client, rule, &known))?;
            }
            found
        }
        Source::Engine(address) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let read = async {
                let engine = Engine::connect(&address, PATIENCE).await?;
                let reader = SharedReader::of(&engine);
                let found = match &client[..] {
                    [] => reader.top(*top, rule, since, order).await?,
                    client => reader.of_clients(client, rule, since, step).await?,
                };
                let is_missing = found.found.is_empty() && (rule.is_some() || !client.is_empty());
                let unknown = if is_missing { unknown(&reader, client, rule, since).await } else { Ok(()) };
                Ok::<_, Error>((found, unknown))
            };
            let read = runtime.block_on(read);
            let (SharedFound { found, left_out }, unknown) =
                read.with_context(|| format!("usage cannot be read from the engine at {address}"))?;
            if left_out != 0 {
                let rows = output::count(left_out, "row");
                writeln!(
                    io::stderr(),
                    "ratelimit: warning: {rows} of the engine at {address} make no sense: left out"
                )?;
            }
            unknown?;
            found
        }
    };
    let rows = found.into_iter().map(Row::of).collect::<Result<Vec<_>>>()?;
    let begin = time(since / 3_600 * 3_600)?;
    output.print(&rows, |out| {
        if rows.is_empty() {
            return match &client[..] {
                [] => writeln!(out, "no usage since {}", hour(begin)),
                client => {
                    writeln!(out, "{}", missing::nothing_known(client, &hour(begin), arguments.since, place))
                }
            };
        }
        write(out, &rows, by, now)
    })?;
    Ok(if rows.is_empty() && !client.is_empty() { Answer::Negative } else { Answer::Done })
}

/// Fails if no row has the rule or the attributes. Older rows are read only if those since this time do not have them. The
/// answer does not need the names, so no problem of reading them is one.
async fn unknown(reader: &SharedReader<'_>, client: &[Pair], rule: Option<&str>, since: u64) -> Result<()> {
    let Ok(names) = reader.names(since).await else { return Ok(()) };
    if missing::expect(client, rule, &names).is_ok() {
        return Ok(());
    }
    let Ok(names) = reader.names(0).await else { return Ok(()) };
    missing::expect(client, rule, &names)
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
