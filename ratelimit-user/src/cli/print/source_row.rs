//! A tracked source as JSON and as a row of a table.

use anyhow::Result;
use jiff::Timestamp;
use ratelimit_base::text::{prefix::Prefix, service::ServiceName};
use ratelimit_common::{
    buckets::bucket::Bucket,
    cells::refused_sample,
    identity::source::Source,
    limits::policy::{BAN, DENY, LIMIT, LISTED},
    maps::control::FEATURE_FRONT,
    reason::Count,
};
use ratelimit_dataplane::{
    readings::rule_hits::Hits,
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
    /// Whether the numbers of passed and of refused packets are estimates.
    #[serde(skip)]
    pub(crate) are_estimates: [bool; 2],
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

    /// Packets that passed.
    fn passed(packets: u64, bytes: u64, is_sampled: bool) -> Self {
        Self { packets, bytes, estimated: is_sampled && packets > 0, error: None }
    }

    /// Returns the packets, with a mark if they are an estimate.
    fn text(&self) -> String {
        format!("{}{}", mark(self.estimated), self.packets)
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
    /// Whether they are estimates, as the totals are.
    pub(crate) estimated: bool,
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
    has_cells: bool,
    /// The kernel's monotonic clock, and the same moment.
    now: u64,
    at: Timestamp,
}

impl<'a> Describe<'a> {
    pub(crate) fn with(tables: &'a Tables) -> Result<Self> {
        let has_cells = tables.control()?.features & FEATURE_FRONT != 0;
        let (now, at) = (host::now(), Timestamp::now());
        Ok(Self { tables, services: Services::read(tables)?, has_cells, now, at })
    }

    /// Returns the service of a source's bucket.
    pub(crate) fn service(&self, source: &Source) -> ServiceName {
        ServiceName(self.services.of_key(source).0)
    }

    /// Returns whether cells decide about most packets of a rule, so that only samples are counted.
    pub(crate) fn is_sampled(&self, spec: &RuleSpec) -> bool {
        // Cells decide only about limits without parents.
        let limits = spec.policy.packets.is_on() || spec.policy.second.is_on();
        self.has_cells && spec.policy.kind == LIMIT && limits && spec.parents.is_empty()
    }

    /// Describes what a rule has decided.
    pub(crate) fn hits(&self, spec: &RuleSpec, hits: &Hits) -> HitsRow {
        let refused = |count| Counted::refused(count, hits.are_refused_sampled);
        HitsRow {
            passed: Counted::passed(hits.passed.packets, hits.passed.bytes, self.is_sampled(spec)),
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
            passed: Counted::passed(bucket.passed(), bucket.passed_bytes, is_sampled),
            dropped: Counted::refused(bucket.dropped(), bucket.is_sampled()),
            would_drop: Counted::refused(bucket.would_drop(), bucket.is_sampled()),
            seen: Seen::of(bucket, self.now, self.at)?,
            per_second: per_second.map(|rates| PerSecond { estimated: is_sampled || bucket.is_sampled(), ..rates }),
            are_estimates: [is_sampled, bucket.is_sampled()],
            is_denied: matches!(spec.policy.kind, DENY | BAN | LISTED),
        })
    }
}

/// Writes a table. Columns for shadow mode and for rates are shown only if there are any.
pub(crate) fn write(out: &mut dyn std::io::Write, rows: &[Row]) -> std::io::Result<()> {
    let has_shadow = rows.iter().any(|row| row.would_drop.packets != 0);
    let has_rates = rows.iter().any(|row| row.per_second.is_some());
    let cells = |row: &Row| {
        let rate = |rate: u64| if has_rates { rate.to_string() } else { String::new() };
        let per_second = row.per_second.unwrap_or_default();
        let [passed, refused] = row.are_estimates.map(mark);
        let [first, last] = row.seen.texts();
        [
            row.source.clone(),
            row.service.clone(),
            row.policy.text.clone(),
            passed.to_owned() + &rate(per_second.passed),
            refused.to_owned() + &rate(per_second.dropped + per_second.would_drop),
            row.passed.packets.to_string(),
            row.passed.bytes.to_string(),
            row.dropped.text(),
            row.dropped.bytes.to_string(),
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
