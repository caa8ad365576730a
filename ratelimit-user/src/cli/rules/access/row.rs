//! A rule allow or deny in the output.

use ratelimit_base::text::service::ServiceName;
use ratelimit_dataplane::rules::list::Listed;
use serde::Serialize;

use crate::cli::print::{
    output::{covers, end, origin},
    source_row::HitsRow,
};

/// A rule in the output.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    source: String,
    service: String,
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

impl Row {
    pub(super) fn of(rule: &Listed) -> Self {
        Self {
            source: rule.target.sources.to_string(),
            service: ServiceName(rule.target.service).to_string(),
            expires_in_seconds: rule.expires_in.map(|left| left.as_secs()),
            covers: covers(rule),
            covered_by: None,
            origin: origin(rule.origin),
            comment: rule.comment.as_deref().map(str::to_owned),
            hits: None,
        }
    }

    pub(super) fn with(self, covered_by: Option<String>, hits: Option<HitsRow>) -> Self {
        Self { covered_by, hits, ..self }
    }

    pub(super) fn cells(&self) -> [String; 8] {
        let [passed, dropped, would_drop] = HitsRow::cells(self.hits.as_ref());
        [
            self.source.clone(),
            self.service.clone(),
            end(self.expires_in_seconds, self.covers.as_deref(), self.covered_by.as_deref()),
            self.origin.to_owned(),
            self.comment.clone().unwrap_or_default(),
            passed,
            dropped,
            would_drop,
        ]
    }
}
