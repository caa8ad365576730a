//! `ratelimit sources`.

use std::{
    cell::RefCell,
    collections::HashMap,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::ValueEnum;
use ratelimit_base::text::{
    prefix::Prefix,
    service::{ServiceError, ServiceName},
    units,
};
use ratelimit_common::{
    buckets::bucket::Bucket,
    identity::{service::Service, source::Source},
};
use ratelimit_dataplane::{
    Instance,
    readings::{
        source_counts::packets,
        tracked,
        worst::{Found, Search, by_drops, by_passes},
    },
    sys::host,
    tables::open::Tables,
};

use crate::cli::{
    print::{
        answer::Answer,
        output::Output,
        source_row::{self, Describe, PerSecond, Row},
    },
    rules::sources_argument::Given,
};

/// How many sources the text shows if no number is given.
const FEW: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only sources within this prefix, or the source of this address
    #[arg(value_name = "PREFIX")]
    prefix: Option<Given<Prefix>>,
    /// Only packets of this service, as `ratelimit limit list` names it; `any` for those of services without rules
    #[arg(long, value_name = "PROTO[/PORT]|any", value_parser = service_or_any)]
    service: Option<ServiceName>,
    /// Order: the source with the most packets of this kind comes first
    #[arg(long, value_enum, default_value = "dropped")]
    sort: Sort,
    /// List at most this many sources. Without it, text shows 20, and JSON contains all
    #[arg(short = 'n', value_name = "N")]
    most: Option<usize>,
    /// Count for this time, and show and sort by packets per second: 1s, 10s
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    during: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    Dropped,
    Passed,
}

/// Returns the service with this name, or that of packets without rules for their service.
fn service_or_any(text: &str) -> Result<ServiceName, ServiceError> {
    if text == "any" { Ok(ServiceName(Service::Any)) } else { text.parse() }
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    arguments.prefix.iter().try_for_each(Given::say_cut)?;
    let instance = Instance::open(pins)?;
    let (found, rows) = read(arguments, &instance.tables, output.json)?;
    // A slow reader must not keep other commands waiting for the lock.
    drop(instance);
    output.print(&rows, |out| {
        source_row::write(out, &rows)?;
        if rows.iter().any(|row| row.passed.estimated) {
            writeln!(out, "passed packets within a limit are estimates (see `ratelimit help sources`)")?;
        }
        match found.wanted - rows.len() {
            0 => Ok(()),
            more => writeln!(out, "{more} more sources (show all: -n {})", found.wanted),
        }
    })?;
    Ok(Answer::Done)
}

fn read(arguments: &Arguments, tables: &Tables, is_complete: bool) -> Result<(Found, Vec<Row>)> {
    let before = arguments.during.map(|time| Counted::during(tables, time)).transpose()?;
    let describe = Describe::with(tables)?;
    let is_wanted = |source: &Source| {
        let prefix = Prefix::of(source, source.prefix);
        arguments.prefix.is_none_or(|wanted| wanted.value.contains(&prefix) || prefix.contains(&wanted.value))
            && arguments.service.is_none_or(|wanted| describe.service(source) == wanted)
    };
    let side = usize::from(arguments.sort == Sort::Dropped);
    let ranks = RefCell::new(HashMap::new());
    let rank = |source: &Source, bucket: &Bucket| {
        let total = if arguments.sort == Sort::Dropped { by_drops } else { by_passes };
        let rate = before.as_ref().map(|before| {
            let rank = || before.rates(&describe, source, bucket).map_or(0, |rate| rate.ranks()[side]);
            *ranks.borrow_mut().entry(*source).or_insert_with(rank)
        });
        (rate, total(source, bucket))
    };
    let most = arguments.most.unwrap_or(if is_complete { usize::MAX } else { FEW });
    let found = Search { most, budget: None, rank, is_wanted }.find(tables)?;
    let row = |(source, bucket): &(Source, Bucket)| {
        let rates = before.as_ref().map(|before| before.rates(&describe, source, bucket)).transpose()?;
        describe.row(source, bucket, rates)
    };
    let rows = found.sources.iter().map(row).collect::<Result<_>>()?;
    Ok((found, rows))
}

/// The packets of each source at an earlier time.
struct Counted {
    at: Instant,
    packets: HashMap<Source, [u64; 3]>,
}

impl Counted {
    /// Counts, and returns after this time.
    fn during(tables: &Tables, time: Duration) -> Result<Self> {
        let at = Instant::now();
        let mut counted = HashMap::new();
        tracked::each(tables, |source, bucket| {
            counted.insert(source, packets(&bucket));
        })?;
        thread::sleep(time.saturating_sub(at.elapsed()));
        Ok(Self { at, packets: counted })
    }

    fn rates(&self, describe: &Describe<'_>, source: &Source, bucket: &Bucket) -> Result<PerSecond> {
        let before = self.packets.get(source).copied().unwrap_or_default();
        describe.rates(source, before, bucket, self.at.elapsed())
    }
}
