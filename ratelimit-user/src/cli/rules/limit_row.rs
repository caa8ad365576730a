//! Limits in the output.

use std::path::Path;

use anyhow::Result;
use ratelimit_common::limits::{
    limit::SECOND,
    policy::{Ban, LIMIT},
};
use serde::Serialize;

use crate::{
    cli::print::{
        answer::Answer,
        output::{self, Output, covers, end, origin, with_covered},
    },
    dataplane::{
        Instance,
        rules::{
            list::{self, Listed},
            spec::RuleSpec,
        },
    },
    limit::{
        excess::{self, Throttle},
        write,
    },
    text::service::ServiceName,
};

/// A limit in the output.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    source: String,
    service: String,
    packets: Option<String>,
    bytes: Option<String>,
    burst: u64,
    algorithm: &'static str,
    throttle: String,
    over_limit: &'static str,
    parents: Vec<String>,
    /// Null if the limit does not ban.
    ban: Option<BanRow>,
    /// Seconds.
    expires_in: Option<u64>,
    /// The rule that returns when this one expires.
    covers: Option<String>,
    /// The temporary rule that applies instead now.
    covered_by: Option<String>,
    origin: &'static str,
    /// The name of its policy in a configuration file.
    policy: Option<String>,
    comment: Option<String>,
}

/// The ban of sources that exceed a limit.
#[derive(Debug, Clone, Copy, Serialize)]
struct BanRow {
    seconds: u64,
    after: u32,
    cap_seconds: u64,
    #[serde(skip)]
    ban: Ban,
}

impl BanRow {
    fn of(ban: Ban) -> Self {
        Self { seconds: ban.time / SECOND, after: ban.after, cap_seconds: ban.most / SECOND, ban }
    }

    fn text(&self) -> Option<String> {
        excess::ban(&self.ban)
    }
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
        let policy = &rule.spec.policy;
        Self {
            source: rule.target.sources.to_string(),
            service: ServiceName(rule.target.service).to_string(),
            packets: write::packets(policy),
            bytes: write::bytes(policy),
            burst: policy.given.burst,
            algorithm: write::algorithm(policy),
            throttle: Throttle::of(policy).to_string(),
            over_limit: excess::over_limit(policy),
            parents: rule.spec.parents.iter().map(write::parent).collect(),
            ban: (policy.ban.time != 0).then(|| BanRow::of(policy.ban)),
            expires_in: rule.expires_in.map(|left| left.as_secs()),
            covers: covers(rule),
            covered_by: None,
            origin: origin(rule.origin),
            policy: rule.spec.name().map(str::to_owned),
            comment: rule.comment.as_deref().map(str::to_owned),
        }
    }

    fn cells(&self) -> [String; 14] {
        let dash = || "-".to_owned();
        [
            self.source.clone(),
            self.service.clone(),
            self.packets.clone().unwrap_or_else(dash),
            self.bytes.clone().unwrap_or_else(dash),
            if self.burst == 0 { dash() } else { self.burst.to_string() },
            self.algorithm.to_owned(),
            self.throttle.clone(),
            self.over_limit.to_owned(),
            if self.parents.is_empty() { dash() } else { self.parents.join(" ") },
            self.ban.as_ref().and_then(BanRow::text).unwrap_or_else(dash),
            end(self.expires_in, self.covers.as_deref(), self.covered_by.as_deref()),
            self.origin.to_owned(),
            self.policy.clone().unwrap_or_default(),
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
