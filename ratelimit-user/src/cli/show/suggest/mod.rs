//! `ratelimit suggest`.

mod proposal;
mod report;

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_common::identity::source::Source;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant as Moment, sleep_until},
};

use self::{
    proposal::Proposal,
    report::{Busiest, Limited, OfService, Percentiles, Report, Suggestion},
};
use crate::{
    cli::print::{answer::Answer, output::Output, source_row::Describe},
    dataplane::{
        instance::read_only::View,
        readings::{
            peaks::{Peak, Peaks},
            source_drops::Drops,
            tracked,
            worst::over_limit,
        },
        rules::resolve,
        sys::host,
        tables::open::Tables,
    },
    text::{prefix::Prefix, service::ServiceName, units},
};

/// The time between two readings.
const STEP: Duration = Duration::from_secs(1);

/// A reading takes at most this part of the time, so that the host is not slowed down.
const MOST_LOAD: u32 = 20;

/// The most sources of a service that JSON names.
const MOST_NAMED: usize = 1_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Observe for this time, or until Ctrl-C: 90s, 10m, 1h
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration, default_value = "1m")]
    time: Duration,
    /// Propose twice what this part of the sources reach in their busiest second
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u8).range(1..=100))]
    percentile: u8,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (peaks, time) = runtime.block_on(observe(pins, arguments.time))?;
    let view = View::open(pins)?;
    let report = report(peaks, time, arguments.percentile, view.tables())?;
    let is_empty = report.services.is_empty();
    output.print(&report, |out| report.write(out))?;
    Ok(if is_empty { Answer::Negative } else { Answer::Done })
}

/// Reads all sources again and again. Returns their peaks and the time between the first and the last reading.
async fn observe(pins: &Path, time: Duration) -> Result<(Vec<(Source, Peak)>, Duration)> {
    // Ctrl-C ends the observation, also during the first reading.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (begin, mut peaks) = (Instant::now(), Peaks::default());
    loop {
        let now = begin.elapsed();
        read(pins, now, &mut peaks)?;
        if now >= time {
            return Ok((peaks.finish(), now));
        }
        let pause = STEP.max((begin.elapsed() - now) * MOST_LOAD).min(time.saturating_sub(now));
        tokio::select! {
            () = sleep_until(Moment::from_std(begin + now + pause)) => {}
            _ = interrupt.recv() => {
                let now = begin.elapsed();
                read(pins, now, &mut peaks)?;
                return Ok((peaks.finish(), now));
            }
        }
    }
}

fn read(pins: &Path, now: Duration, peaks: &mut Peaks) -> Result<()> {
    let view = View::open(pins)?;
    peaks.add(now, |each| {
        tracked::each(view.tables(), |source, bucket| {
            if resolve::is_source(&source, &bucket) {
                each(source, bucket.passed_packets + over_limit(&bucket));
            }
        })
    })?;
    Ok(())
}

fn report(peaks: Vec<(Source, Peak)>, time: Duration, percentile: u8, tables: &Tables) -> Result<Report> {
    let describe = Describe::with(tables)?;
    let mut by_service: BTreeMap<String, (ServiceName, Vec<(Source, Peak)>)> = BTreeMap::new();
    for (source, peak) in peaks {
        let service = describe.service(&source);
        by_service.entry(service.to_string()).or_insert_with(|| (service, Vec::new())).1.push((source, peak));
    }
    let of_service = |(service, peaks)| of_service(service, peaks, time, percentile, &describe, tables);
    let services = by_service.into_values().map(of_service).collect::<Result<Vec<_>>>()?;
    Ok(Report { seconds: time.as_secs_f64(), percentile, services })
}

fn of_service(
    service: ServiceName,
    mut peaks: Vec<(Source, Peak)>,
    time: Duration,
    percentile: u8,
    describe: &Describe<'_>,
    tables: &Tables,
) -> Result<OfService> {
    let sorted = |value: fn(&Peak) -> u64| {
        let mut values: Vec<u64> = peaks.iter().map(|(_, peak)| value(peak)).collect();
        values.sort_unstable();
        values
    };
    let seconds = sorted(|peak| peak.second);
    let proposal = Proposal::of(service.0, &seconds, f64::from(percentile));
    let busiest = Busiest {
        second: Percentiles::of(&seconds),
        minute: (time >= Duration::from_secs(60)).then(|| Percentiles::of(&sorted(|peak| peak.minute))),
        hour: (time >= Duration::from_secs(3_600)).then(|| Percentiles::of(&sorted(|peak| peak.hour))),
    };
    let sources = peaks.len();
    let is_estimated = |(source, _): &(Source, Peak)| -> Result<bool> {
        let bucket = Drops::of(tables)?.bucket(source)?;
        Ok(bucket
            .map(|bucket| describe.row(source, &bucket, None))
            .transpose()?
            .is_some_and(|row| row.passed.estimated))
    };
    peaks.sort_unstable_by_key(|(source, peak)| (Reverse(peak.second), source.address()));
    let estimated = peaks.first().map(is_estimated).transpose()?.unwrap_or_default();
    peaks.retain(|(_, peak)| peak.second > proposal.per_second);
    let limited = peaks.len();
    let named = peaks.iter().take(MOST_NAMED).map(|(source, peak)| Limited {
        source: Prefix::of(source, source.prefix).to_string(),
        second: peak.second,
        minute: busiest.minute.is_some().then_some(peak.minute),
        hour: busiest.hour.is_some().then_some(peak.hour),
    });
    let named = named.collect();
    Ok(OfService {
        suggestion: Suggestion::new(service, proposal),
        sources,
        estimated,
        busiest,
        limited,
        would_limit: named,
    })
}
