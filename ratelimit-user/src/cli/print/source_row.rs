//! A tracked source as JSON and as a row of a table.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use ratelimit_base::text::{prefix::Prefix, service::ServiceName};
use ratelimit_common::{
    buckets::bucket::Bucket,
    cells::refused_sample,
    identity::source::Source,
    limits::policy::{BAN, DENY, LISTED},
    maps::control::SAMPLE_RATE,
    reason::Count,
};
use ratelimit_dataplane::{
    readings::{
        rates::per,
        rule_hits::Hits,
        sampling::{self, Few, SAMPLES, Sampling},
        source_counts::since,
    },
    rules::{resolve, services::Services, spec::RuleSpec},
    sys::host,
    tables::open::Tables,
};
use serde::Serialize;

use super::{output, policy_row::PolicyRow, seen::Seen};

/// A tracked source in the output.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) source: String,
    pub(crate) service: String,
    pub(crate) policy: PolicyRow,
    pub(crate) passed: Counted,
    pub(crate) dropped: Counted,
    /// Packets that passed in shadow mode, and would have been dropped.
    pub(crate) would_drop: Counted,
    #[serde(flatten)]
    pub(crate) seen: Seen,
    /// Packets per second. None without two readings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) per_second: Option<PerSecond>,
    /// Whether a deny, a ban or a list drops all its packets, so that it has no limit.
    #[serde(skip)]
    pub(crate) is_denied: bool,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Counted {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Whether the numbers are estimates, because only samples were counted.
    pub(crate) estimated: bool,
    /// Packets by which 19 of 20 estimates of refused packets are wrong at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<u64>,
}

impl From<Count> for Counted {
    fn from(Count { packets, bytes }: Count) -> Self {
        Self { packets, bytes, ..Self::default() }
    }
}

impl Counted {
    /// Packets that a rule or a limit has refused.
    fn refused(Count { packets, bytes }: Count, is_sampled: bool) -> Self {
        let estimated = is_sampled && packets > 0;
        Self { packets, bytes, estimated, error: estimated.then(|| refused_sample::error(packets)) }
    }

    /// Returns the packets, with a mark if they are an estimate.
    fn text(&self) -> String {
        format!("{}{}", mark(self.estimated), self.packets)
    }

    fn bytes_text(&self) -> String {
        format!("{}{}", mark(self.estimated), self.bytes)
    }
}

/// Returns the mark in front of an estimate.
pub(crate) const fn mark(is_estimate: bool) -> &'static str {
    if is_estimate { "~" } else { "" }
}

/// Packets per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PerSecond {
    pub(crate) passed: u64,
    pub(crate) dropped: u64,
    pub(crate) would_drop: u64,
    /// Whether any of them is an estimate.
    pub(crate) estimated: bool,
    /// Whether those that passed and those that were refused are estimates.
    #[serde(skip)]
    pub(crate) are_estimates: [bool; 2],
    /// What few samples tell of those that passed and of those that were refused.
    #[serde(skip)]
    pub(crate) few: [Option<Few>; 2],
}

impl PerSecond {
    /// Returns the rates of a source between two readings of its bucket. `are_estimates` tells whether packets that passed
    /// and those that were refused were counted by samples.
    pub(crate) fn between(before: [u64; 3], bucket: &Bucket, time: Duration, are_estimates: [bool; 2]) -> Self {
        let [passed, dropped, would_drop] = since(bucket, before);
        let few = |side: usize, packets| Few::of(packets, SAMPLES[side], time).filter(|_| are_estimates[side]);
        Self {
            passed: per(passed, time),
            dropped: per(dropped, time),
            would_drop: per(would_drop, time),
            estimated: are_estimates.contains(&true),
            are_estimates,
            few: [few(0, passed), few(1, dropped + would_drop)],
        }
    }

    /// Returns what passed and what was refused.
    pub(crate) const fn both(&self) -> [u64; 2] {
        [self.passed, self.dropped + self.would_drop]
    }

    /// Returns the same for an order of sources, in which one or two samples count for nothing.
    pub(crate) fn ranks(&self) -> [u64; 2] {
        let both = self.both();
        std::array::from_fn(|side| self.few[side].map_or(both[side], |few| few.sure))
    }

    /// Returns the texts of both.
    pub(crate) fn texts(&self, number: fn(u64) -> String) -> [String; 2] {
        let both = self.both();
        std::array::from_fn(|side| rate_text(both[side], self.are_estimates[side], self.few[side], number))
    }
}

/// Returns a rate with a mark if it is an estimate. Of one that few samples made, only an upper bound is known.
pub(crate) fn rate_text(rate: u64, is_estimate: bool, few: Option<Few>, number: fn(u64) -> String) -> String {
    match few {
        Some(few) => format!("<{}", number(few.below)),
        None => format!("{}{}", mark(is_estimate), number(rate)),
    }
}

/// Packets of the sources that a rule decides about.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct HitsRow {
    passed: Counted,
    dropped: Counted,
    would_drop: Counted,
}

impl HitsRow {
    /// The heads of three columns.
    pub(crate) const HEAD: [&str; 3] = ["passed", "dropped", "would drop"];

    /// Returns these columns, empty without numbers.
    pub(crate) fn cells(hits: Option<&Self>) -> [String; 3] {
        hits.map_or_else(Default::default, |hits| {
            [hits.passed, hits.dropped, hits.would_drop].map(|count| count.text())
        })
    }
}

/// Describes sources.
pub(crate) struct Describe<'a> {
    tables: &'a Tables,
    services: Services,
    sampling: Sampling,
    /// Whether refused packets are counted by samples now.
    is_flood: bool,
    /// The kernel's monotonic clock, and the same moment.
    now: u64,
    at: Timestamp,
}

impl<'a> Describe<'a> {
    pub(crate) fn with(tables: &'a Tables) -> Result<Self> {
        let sampling = Sampling::of(&tables.control()?);
        let (now, at) = (host::now(), Timestamp::now());
        let is_flood = sampling::is_flood(tables)?;
        Ok(Self { tables, services: Services::read(tables)?, sampling, is_flood, now, at })
    }

    /// Returns the service of a source's bucket.
    pub(crate) fn service(&self, source: &Source) -> ServiceName {
        ServiceName(self.services.of_key(source).0)
    }

    /// Returns whether cells decide about most packets of a rule, so that only samples are counted now.
    pub(crate) const fn is_sampled(&self, spec: &RuleSpec) -> bool {
        self.sampling.is_on(&spec.policy)
    }

    /// Returns the rates of a source since a reading that is as old as this.
    pub(crate) fn rates(
        &self,
        source: &Source,
        before: [u64; 3],
        bucket: &Bucket,
        time: Duration,
    ) -> Result<PerSecond> {
        Ok(PerSecond::between(before, bucket, time, self.have_samples(source, before, bucket, time)?))
    }

    /// Returns whether packets of a source that have passed and that were refused in this time may be samples. What
    /// decides about it is asked only if as many as a sample have passed.
    pub(crate) fn have_samples(
        &self,
        source: &Source,
        before: [u64; 3],
        bucket: &Bucket,
        time: Duration,
    ) -> Result<[bool; 2]> {
        let [passed, ..] = since(bucket, before);
        let may_be_flood = self.is_flood || time > Duration::from_nanos(refused_sample::PERIOD);
        let are_passed = passed >= SAMPLE_RATE && self.is_sampled_source(source)?;
        Ok([are_passed, bucket.is_sampled() && may_be_flood])
    }

    /// Returns whether cells decide about most packets of a source, so that only samples are counted now.
    pub(crate) fn is_sampled_source(&self, source: &Source) -> Result<bool> {
        let (_, classes) = self.services.of_key(source);
        let policy = resolve::policy_of(self.tables, source, classes)?;
        Ok(self.sampling.is_on(&self.tables.policies.get(policy)?))
    }

    /// Packets that passed.
    fn passed(&self, count: Count) -> Counted {
        Counted { estimated: self.sampling.are_totals_estimates, ..count.into() }
    }

    /// Packets of a source that were refused.
    fn refused(&self, count: Count, bucket: &Bucket) -> Counted {
        Counted::refused(count, bucket.is_sampled() || self.sampling.are_refusals_estimates)
    }

    /// Describes what a rule has decided.
    pub(crate) fn hits(&self, hits: &Hits) -> HitsRow {
        let refused = |count| Counted::refused(count, hits.are_refused_sampled);
        HitsRow {
            passed: self.passed(hits.passed),
            dropped: refused(hits.dropped),
            would_drop: refused(hits.would_drop),
        }
    }

    pub(crate) fn row(&self, source: &Source, bucket: &Bucket, per_second: Option<PerSecond>) -> Result<Row> {
        let (service, classes) = self.services.of_key(source);
        let mut spec = resolve::of_source(self.tables, source, classes)?;
        spec.parents = spec.parents_of(source.family)?;
        let is_sampled = self.is_sampled(&spec);
        Ok(Row {
            source: Prefix::of(source, source.prefix).to_string(),
            service: ServiceName(service).to_string(),
            policy: PolicyRow::of(&spec),
            passed: self.passed(Count { packets: bucket.passed(), bytes: bucket.passed_bytes }),
            dropped: self.refused(bucket.dropped(), bucket),
            would_drop: self.refused(bucket.would_drop(), bucket),
            seen: Seen::of(bucket, self.now, self.at)?,
            per_second: per_second.map(|rates| PerSecond {
                estimated: is_sampled || rates.are_estimates[1],
                are_estimates: [is_sampled, rates.are_estimates[1]],
                ..rates
            }),
            is_denied: matches!(spec.policy.kind, DENY | BAN | LISTED),
        })
    }
}

/// Writes a table. Columns for shadow mode and for rates are shown only if there are any.
pub(crate) fn write(out: &mut dyn std::io::Write, rows: &[Row]) -> std::io::Result<()> {
    let has_shadow = rows.iter().any(|row| row.would_drop.packets != 0);
    let cells = |row: &Row| {
        let [passed, refused] =
            row.per_second.map_or_else(Default::default, |rates| rates.texts(|rate| rate.to_string()));
        let [first, last] = row.seen.texts();
        [
            row.source.clone(),
            row.service.clone(),
            row.policy.text.clone(),
            passed,
            refused,
            row.passed.text(),
            row.passed.bytes_text(),
            row.dropped.text(),
            row.dropped.bytes_text(),
            if has_shadow { row.would_drop.text() } else { String::new() },
            first,
            last,
        ]
    };
    let over = if has_shadow { "over limit/s" } else { "dropped/s" };
    let head = [
        "source",
        "service",
        "policy",
        "passed/s",
        over,
        "passed",
        "passed bytes",
        "dropped",
        "dropped bytes",
        "would drop",
        "first seen",
        "last seen",
    ];
    let rows: Vec<_> = rows.iter().map(cells).collect();
    output::table(out, head, &rows)
}
