//! A rule, a default, a list or a ban in the answer.

use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{
    identity::service::Service,
    limits::policy::{LIMIT, Policy},
    rules::rule::BANNED,
};
use ratelimit_daemon::limit::write;
use ratelimit_dataplane::{
    decision::Voice,
    rules::{list::Listed, spec::RuleSpec, target::Sources},
};
use serde::Serialize;

use crate::cli::print::{
    list_row,
    output::{expiry, origin, set_by},
    policy_row::PolicyRow,
};

/// A rule, a default, a list or a ban.
#[derive(Debug, Serialize)]
pub(super) struct Cause {
    kind: &'static str,
    /// The prefix of a rule or a ban, `default`, or the name of a list.
    name: String,
    service: String,
    policy: PolicyRow,
    origin: &'static str,
    #[serde(skip)]
    set_by: &'static str,
    expires_in_seconds: Option<u64>,
    /// The rule that returns when this one expires.
    covers: Option<String>,
    comment: Option<String>,
}

impl Cause {
    pub(super) fn of(voice: &Voice) -> Self {
        match voice {
            Voice::Rule(rule) => Self::of_rule(rule),
            Voice::List(list) => {
                let row = list_row::Row::of(list);
                Self {
                    kind: "list",
                    name: row.name,
                    service: ServiceName(Service::Any).to_string(),
                    policy: row.policy.unwrap_or_else(|| PolicyRow::of(&RuleSpec::from(Policy::DENIED))),
                    origin: row.origin,
                    set_by: row.set_by,
                    expires_in_seconds: row.expires_in_seconds,
                    covers: None,
                    comment: None,
                }
            }
        }
    }

    fn of_rule(rule: &Listed) -> Self {
        let kind = match rule.target.sources {
            _ if rule.origin == BANNED => "ban",
            Sources::Default => "default",
            Sources::Prefix(_) => "rule",
        };
        Self {
            kind,
            name: rule.target.sources.to_string(),
            service: ServiceName(rule.target.service).to_string(),
            policy: match rule.spec.policy.kind {
                LIMIT => PolicyRow::of_limit(&rule.spec),
                _ => PolicyRow::of(&rule.spec),
            },
            origin: origin(rule.origin),
            set_by: set_by(rule.origin),
            expires_in_seconds: rule.expires_in.map(|left| left.as_secs()),
            covers: rule.covers.as_ref().map(|covered| write::spec(&covered.spec)),
            comment: rule.comment.as_deref().map(str::to_owned),
        }
    }

    pub(super) fn text(&self) -> String {
        let what = match self.kind {
            "list" => format!("list {}", self.name),
            "ban" => format!("ban of {}", self.name),
            "default" => "default".to_owned(),
            _ => format!("rule for {}", self.name),
        };
        let service = if self.service == "any" { String::new() } else { format!(" {}", self.service) };
        let name = self.policy.name.as_ref().map_or_else(String::new, |name| format!("{name}: "));
        // The word for what a ban does is its name already.
        let policy = match self.kind {
            "ban" => String::new(),
            _ => format!(": {name}{}", self.policy.text),
        };
        let end = match self.expires_in_seconds {
            Some(_) => format!(", expires {}", expiry(self.expires_in_seconds, self.covers.as_deref())),
            None => String::new(),
        };
        let comment = self.comment.as_ref().map_or_else(String::new, |comment| format!(" # {comment}"));
        format!("{what}{service}{policy}, set {}{end}{comment}", self.set_by)
    }
}
