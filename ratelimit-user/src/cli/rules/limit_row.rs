//! Limits in the output.

use std::path::Path;

use anyhow::Result;
use ratelimit_common::limits::policy::LIMIT;
use serde::Serialize;

use crate::{
    cli::print::{
        answer::Answer,
        output::{self, Output, covers, end, origin, with_covered},
        policy_row::{BanRow, PolicyRow},
    },
    dataplane::{
        Instance,
        rules::{
            list::{self, Listed},
            spec::RuleSpec,
        },
    },
    text::service::ServiceName,
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
}

/// The columns of the table. The last two appear only if a limit has a name or a comment.
const HEAD: [&str; 14] = [
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
        }
    }

    fn cells(&self) -> [String; 14] {
        let dash = || "-".to_owned();
        let joined = |texts: &[String], with: &str| if texts.is_empty() { dash() } else { texts.join(with) };
        let PolicyRow { packets, bytes, burst, algorithm, throttle, over_limit, parents, ban, name, .. } = &self.policy;
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
        ]
    }
}

/// Returns whether a rule is a limit.
pub(super) fn is_limit(spec: &RuleSpec) -> bool {
    spec.policy.kind == LIMIT
}

/// Prints all limits.
pub(super) fn list(pins: &Path, output: Output) -> Result<Answer> {
    let instance = Instance::open(pins)?;
    let limits = list::list(&instance.tables)?;
    drop(instance);
    let own = with_covered(&limits, is_limit).into_iter();
    let rows: Vec<Row> = own.map(|(rule, covered_by)| Row { covered_by, ..Row::of(&rule) }).collect();
    output.print(&rows, |out| {
        if rows.is_empty() {
            return writeln!(out, "no limits");
        }
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        output::table(out, HEAD, &cells)
    })?;
    Ok(Answer::Done)
}
