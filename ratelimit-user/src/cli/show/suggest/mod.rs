//! `ratelimit suggest`.

mod observe;
mod proposal;
mod report;

use std::{cmp::Reverse, collections::BTreeMap, path::Path, time::Duration};

use anyhow::Result;
use ratelimit_base::text::{prefix::Prefix, service::ServiceName, units};
use ratelimit_common::{identity::source::Source, maps::control::SAMPLE_RATE};
use ratelimit_dataplane::{
    instance::read_only::View,
    readings::{peaks::Peak, rates::per, source_counts::SourceCounts},
    rules::{
        list,
        target::{Sources, Target},
    },
    sys::host,
    tables::open::Tables,
};

use self::{
    observe::{Observation, observe},
    proposal::Proposal,
    report::{Busiest, InForce, Limited, OfService, Percentiles, Report, Suggestion},
};
use crate::cli::print::{answer::Answer, in_shadow, output::Output, source_row::Describe};

/// The most sources of a service that JSON names.
const MOST_NAMED: usize = 1_000;

const MINUTE: Duration = Duration::from_secs(60);

/// The number of sources that tell whether cells decide.
const MOST_ASKED: usize = 16;

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
    let observation = runtime.block_on(observe(pins, arguments.time))?;
    let view = View::open(pins)?;
    let is_in_shadow = in_shadow::is_everything(view.tables(), pins)?;
    let report = report(observation, arguments.percentile, view.tables(), is_in_shadow)?;
    let is_empty = report.services.is_empty();
    output.print(&report, |out| report.write(out))?;
    Ok(if is_empty { Answer::Negative } else { Answer::Done })
}

fn report(observation: Observation, percentile: u8, tables: &Tables, is_in_shadow: bool) -> Result<Report> {
    let Observation { observed, time, not_admitted } = observation;
    let describe = Describe::with(tables)?;
    let mut by_service: BTreeMap<String, (ServiceName, Vec<(Source, Peak)>)> = BTreeMap::new();
    for (source, peak) in observed.sources {
        let service = describe.service(&source);
        by_service.entry(service.to_string()).or_insert_with(|| (service, Vec::new())).1.push((source, peak));
    }
    let how = How { time, percentile, is_in_shadow };
    let of_service = |(service, peaks)| of_service(service, peaks, &how, &describe, tables);
    let services = by_service.into_values().map(of_service).collect::<Result<Vec<_>>>()?;
    let is_complete = observed.left_out == 0;
    Ok(Report { seconds: time.as_secs_f64(), percentile, services, not_admitted, is_complete })
}

/// What the proposals of all services have in common.
struct How {
    time: Duration,
    percentile: u8,
    /// Whether every packet passes now.
    is_in_shadow: bool,
}

fn of_service(
    service: ServiceName,
    mut peaks: Vec<(Source, Peak)>,
    how: &How,
    describe: &Describe<'_>,
    tables: &Tables,
) -> Result<OfService> {
    let How { time, percentile, is_in_shadow } = *how;
    let sources = peaks.len();
    // Forged addresses send one packet each. With many of them, the percentiles would be theirs.
    let seen_once = peaks.iter().filter(|(_, peak)| peak.is_of_one()).count();
    if seen_once < sources {
        peaks.retain(|(_, peak)| !peak.is_of_one());
    }
    let default = list::get(tables, Target::from(Sources::Default).of(service.0))?;
    let of_seconds = |(source, peak): &(Source, Peak)| (Reverse(peak.second), source.address());
    peaks.sort_unstable_by_key(of_seconds);
    let busiest_sources = peaks.iter().take(MOST_ASKED).map(|(source, _)| source);
    let estimated = default.as_ref().is_some_and(|rule| describe.is_sampled(&rule.spec))
        || is_any_estimated(busiest_sources, describe, tables)?;
    if estimated {
        peaks.iter_mut().for_each(|(_, peak)| peak.second = second_by_samples(peak, time));
        peaks.sort_unstable_by_key(of_seconds);
    }
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
    peaks.retain(|(_, peak)| peak.second > proposal.per_second);
    let limited = peaks.len();
    let named = peaks.iter().take(MOST_NAMED).map(|(source, peak)| Limited {
        source: Prefix::of(source, source.prefix).to_string(),
        second: peak.second,
        minute: busiest.minute.is_some().then_some(peak.minute),
        hour: busiest.hour.is_some().then_some(peak.hour),
    });
    let would_limit = named.collect();
    let in_force = InForce::of(default.as_ref().map(|rule| &rule.spec.policy), is_in_shadow);
    let suggestion = Suggestion::new(service, proposal, in_force);
    Ok(OfService { suggestion, sources, seen_once, estimated, busiest, limited, would_limit })
}

/// Returns the packets of the busiest second, if samples counted them. Of many seconds, the one with the most samples
/// has too many of them. So this is what such a second has at least, or the mean of the busiest minute.
fn second_by_samples(peak: &Peak, time: Duration) -> u64 {
    let at_least = peak.second.saturating_sub(2 * (peak.second * SAMPLE_RATE).isqrt());
    at_least.max(per(peak.minute, time.min(MINUTE)))
}

/// Returns whether any of these sources was counted by samples.
fn is_any_estimated<'a>(
    mut sources: impl Iterator<Item = &'a Source>,
    describe: &Describe<'_>,
    tables: &Tables,
) -> Result<bool> {
    let counts = SourceCounts::of(tables)?;
    let is_estimated = |source: &Source| -> Result<bool> {
        let Some(bucket) = counts.tracked(source)? else { return Ok(false) };
        Ok(describe.is_sampled_source(source)? || bucket.is_sampled())
    };
    sources.try_fold(false, |any, source| Ok(any || is_estimated(source)?))
}
