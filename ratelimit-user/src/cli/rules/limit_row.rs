//! Limits in the output.

use std::path::Path;

use anyhow::Result;
use ratelimit_base::text::service::ServiceName;
use ratelimit_daemon::edits::limit::is_limit;
use ratelimit_dataplane::{
    Instance,
    rules::list::{self, Listed},
};
use serde::Serialize;

use super::hits::{self, OfRules};
use crate::cli::print::{
    answer::Answer,
    output::{self, Output, covers, end, origin, with_covered},
    policy_row::{BanRow, PolicyRow},
    source_row::HitsRow,
};

/// A limit in the output.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    source: String,
    service: String,
    policy: PolicyRow,
    expires_in_seconds: Option<u64>,
    /// The rule that returns when this one expires.
    covers: Option<String>,
    /// The temporary rule that applies instead now.
    covered_by: Option<String>,
    origin: &'static str,
    comment: Option<String>,
    /// Absent unless it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    hits: Option<HitsRow>,
}

/// The columns of the table. The last two appear only if a limit has a name or a comment.
const HEAD: [&str; 17] = [
    "source",
    "service",
    "packets",
    "bytes",
    "burst",
    "algorithm",
    "throttle",
    "over limit",
    "parents",
    "ban",
    "expires",
    "origin",
    "policy",
    "comment",
    HitsRow::HEAD[0],
    HitsRow::HEAD[1],
    HitsRow::HEAD[2],
];

impl Row {
    pub(crate) fn of(rule: &Listed) -> Self {
        Self {
            source: rule.target.sources.to_string(),
            service: ServiceName(rule.target.service).to_string(),
            policy: PolicyRow::of_limit(&rule.spec),
            expires_in_seconds: rule.expires_in.map(|left| left.as_secs()),
            covers: covers(rule),
            covered_by: None,
            origin: origin(rule.origin),
            comment: rule.comment.as_deref().map(str::to_owned),
            hits: None,
        }
    }

    fn cells(&self) -> [String; 17] {
        let dash = || "-".to_owned();
        let joined = |texts: &[String], with: &str| if texts.is_empty() { dash() } else { texts.join(with) };
        let PolicyRow { packets, bytes, burst, algorithm, throttle, over_limit, parents, ban, name, .. } = &self.policy;
        let [passed, dropped, would_drop] = HitsRow::cells(self.hits.as_ref());
        let packets: Vec<_> = packets.iter().map(|rate| rate.text.clone()).collect();
        [
            self.source.clone(),
            self.service.clone(),
            joined(&packets, ","),
            bytes.as_ref().map_or_else(dash, |rate| rate.text.clone()),
            burst.map_or_else(dash, |burst| burst.to_string()),
            algorithm.unwrap_or_default().to_owned(),
            throttle.clone().unwrap_or_default(),
            over_limit.unwrap_or_default().to_owned(),
            joined(parents, " "),
            ban.as_ref().and_then(BanRow::text).unwrap_or_else(dash),
            end(self.expires_in_seconds, self.covers.as_deref(), self.covered_by.as_deref()),
            self.origin.to_owned(),
            name.clone().unwrap_or_default(),
            self.comment.clone().unwrap_or_default(),
            passed,
            dropped,
            would_drop,
        ]
    }
}

/// Prints all limits.
pub(super) fn list(hits: hits::Arguments, pins: &Path, output: Output) -> Result<Answer> {
    let instance = Instance::open(pins)?;
    let limits = list::list(&instance.tables)?;
    let hits = OfRules::read(hits, &instance.tables)?;
    let row = |(rule, covered_by): (Listed, Option<String>)| {
        let hits = hits.of(rule.target, covered_by.is_some());
        Row { covered_by, hits, ..Row::of(&rule) }
    };
    let rows: Vec<Row> = with_covered(&limits, is_limit).into_iter().map(row).collect();
    drop(hits);
    drop(instance);
    output.print(&rows, |out| {
        if rows.is_empty() {
            return writeln!(out, "no limits");
        }
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        output::table(out, HEAD, &cells)
    })?;
    Ok(Answer::Done)
}
