//! A rule allow or deny in the output.

use std::time::Duration;

use ratelimit_base::text::{service::ServiceName, units};
use ratelimit_dataplane::rules::list::{Listed, ListedOwner};
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
    /// Others who deny the same. The rule stays until the last of them ends. Absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owners: Vec<OwnerRow>,
    /// Absent unless it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    hits: Option<HitsRow>,
}

/// One more owner of a rule.
#[derive(Debug, Serialize)]
struct OwnerRow {
    comment: Option<String>,
    expires_in_seconds: Option<u64>,
}

impl OwnerRow {
    fn of(owner: &ListedOwner) -> Self {
        Self {
            comment: owner.comment.as_deref().map(str::to_owned),
            expires_in_seconds: owner.expires_in.map(|left| left.as_secs()),
        }
    }

    /// Returns it for the column of comments.
    fn cell(&self) -> String {
        let end = self.expires_in_seconds.map(|left| units::write_duration(Duration::from_secs(left)));
        let end = end.map_or_else(|| "never ends".to_owned(), |left| format!("in {left}"));
        format!("{} ({end})", self.comment.as_deref().unwrap_or("no comment"))
    }
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
            owners: rule.owners.iter().map(OwnerRow::of).collect(),
            hits: None,
        }
    }

    pub(super) fn with(self, covered_by: Option<String>, hits: Option<HitsRow>) -> Self {
        Self { covered_by, hits, ..self }
    }

    /// Returns its comment, and those of further owners with their ends.
    fn comments(&self) -> String {
        let own = self.comment.clone().unwrap_or_default();
        if self.owners.is_empty() {
            return own;
        }
        let own = if own.is_empty() { "no comment".to_owned() } else { own };
        [own].into_iter().chain(self.owners.iter().map(OwnerRow::cell)).collect::<Vec<_>>().join("; ")
    }

    pub(super) fn cells(&self) -> [String; 8] {
        let [passed, dropped, would_drop] = HitsRow::cells(self.hits.as_ref());
        [
            self.source.clone(),
            self.service.clone(),
            end(self.expires_in_seconds, self.covers.as_deref(), self.covered_by.as_deref()),
            self.origin.to_owned(),
            self.comments(),
            passed,
            dropped,
            would_drop,
        ]
    }
}
