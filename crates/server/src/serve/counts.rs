//! What the server has decided, for its metrics.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
};

use ratelimit_base::text::request_rate::RequestRate;
use ratelimit_limiter::{Cause, Counted, Decision, Limiter, Record, Refusal};

use super::access::Denied;

/// Counts requests by rule, and records them elsewhere.
pub(super) struct ByRule<R>(pub(super) R);

impl<R: Record> Record for ByRule<R> {
    fn admitted(&mut self, counted: &Counted<'_>, cost: u32) {
        counted.tally().admit();
        self.0.admitted(counted, cost);
    }

    fn refused(&mut self, counted: &Counted<'_>, refusal: Refusal) {
        counted.tally().refuse(counted.rule().is_shadow(), refusal);
        self.0.refused(counted, refusal);
    }
}

/// Decisions since the start.
#[derive(Debug, Default)]
pub(super) struct Counts {
    uncounted: AtomicU64,
    allowed: AtomicU64,
    above: AtomicU64,
    shadow: AtomicU64,
    refused: AtomicU64,
    bad: AtomicU64,
    unreadable: AtomicU64,
    no_token: AtomicU64,
    unknown_token: AtomicU64,
    no_scope: AtomicU64,
}

impl Counts {
    /// Counts a decision.
    pub(super) fn count(&self, decision: &Decision<'_>) {
        let counter = match decision {
            Decision { is_allowed: false, .. } => &self.refused,
            Decision { shadow: Some(_), .. } => &self.shadow,
            Decision { is_above: true, .. } => &self.above,
            Decision { limit: None, .. } => &self.uncounted,
            _ => &self.allowed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many requests were allowed, and how many were refused.
    pub(super) fn decided(&self) -> [u64; 2] {
        let allowed = [&self.uncounted, &self.allowed, &self.above, &self.shadow];
        let allowed = allowed.into_iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
        [allowed, self.refused.load(Ordering::Relaxed)]
    }

    /// Counts a call that nobody can decide.
    pub(super) fn count_bad(&self) {
        self.bad.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what clients have made unreadable.
    pub(super) fn count_unreadable(&self, count: u64) {
        self.unreadable.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a call that its token does not allow.
    pub(super) fn count_denied(&self, denied: &Denied) {
        let counter = match denied {
            Denied::Missing => &self.no_token,
            Denied::Unknown => &self.unknown_token,
            Denied::Scope { .. } => &self.no_scope,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns all as text for Prometheus.
    pub(super) fn page(&self, limiter: &Limiter) -> String {
        let mut page = String::new();
        let decisions = [
            ("allowed", &self.allowed),
            ("uncounted", &self.uncounted),
            ("above_limit", &self.above),
            ("refused_in_shadow", &self.shadow),
            ("refused", &self.refused),
        ];
        page += "# HELP ratelimit_check_decisions_total Requests by what the server has decided.\n";
        page += "# TYPE ratelimit_check_decisions_total counter\n";
        for (name, counter) in decisions {
            let count = counter.load(Ordering::Relaxed);
            let _ = writeln!(page, "ratelimit_check_decisions_total{{decision=\"{name}\"}} {count}");
        }
        page += "# HELP ratelimit_check_rule_requests_total Requests by rule and by what the rule has decided.\n";
        page += "# TYPE ratelimit_check_rule_requests_total counter\n";
        for (rule, _, _, tally) in limiter.rules() {
            for (decision, count) in ["admitted", "refused", "refused_in_shadow"].into_iter().zip(tally.counts()) {
                let labels = format!("rule=\"{}\",decision=\"{decision}\"", rule.name());
                let _ = writeln!(page, "ratelimit_check_rule_requests_total{{{labels}}} {count}");
            }
        }
        page +=
            "# HELP ratelimit_check_refusals_total Requests that a rule has refused, by its limit and the reason.\n";
        page += "# TYPE ratelimit_check_refusals_total counter\n";
        let shares = limiter.shares().is_some();
        for (rule, _, _, tally) in limiter.rules() {
            // Two limits of the same rate share their series.
            let mut limits: BTreeMap<String, [u64; Cause::ALL.len()]> = BTreeMap::new();
            for (limit, counts) in rule.limits().iter().zip(tally.refusals()) {
                let sums = limits.entry(RequestRate(limit.rate()).to_string()).or_default();
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            for (limit, counts) in limits {
                let counts = Cause::ALL.into_iter().zip(counts);
                for (cause, count) in counts.filter(|(cause, count)| *cause != Cause::Share || shares || *count > 0) {
                    let labels = format!("rule=\"{}\",limit=\"{limit}\",reason=\"{}\"", rule.name(), cause.name());
                    let _ = writeln!(page, "ratelimit_check_refusals_total{{{labels}}} {count}");
                }
            }
        }
        page += "# HELP ratelimit_check_bad_calls_total Calls that the server could not read.\n";
        page += "# TYPE ratelimit_check_bad_calls_total counter\n";
        let _ = writeln!(page, "ratelimit_check_bad_calls_total {}", self.bad.load(Ordering::Relaxed));
        page += "# HELP ratelimit_check_unreadable_attributes_total Attributes that a client has made unreadable.\n";
        page += "# TYPE ratelimit_check_unreadable_attributes_total counter\n";
        let unreadable = self.unreadable.load(Ordering::Relaxed);
        let _ = writeln!(page, "ratelimit_check_unreadable_attributes_total {unreadable}");
        let denied =
            [("no_token", &self.no_token), ("unknown_token", &self.unknown_token), ("no_scope", &self.no_scope)];
        page += "# HELP ratelimit_check_denied_calls_total Calls that their token does not allow.\n";
        page += "# TYPE ratelimit_check_denied_calls_total counter\n";
        for (reason, counter) in denied {
            let count = counter.load(Ordering::Relaxed);
            let _ = writeln!(page, "ratelimit_check_denied_calls_total{{reason=\"{reason}\"}} {count}");
        }
        page += "# HELP ratelimit_check_clients Clients that a rule remembers.\n";
        page += "# TYPE ratelimit_check_clients gauge\n";
        for (rule, clients, ..) in limiter.rules() {
            let _ = writeln!(page, "ratelimit_check_clients{{rule=\"{}\"}} {clients}", rule.name());
        }
        page += "# HELP ratelimit_check_recycled_clients_total Clients that a full table forgot too early.\n";
        page += "# TYPE ratelimit_check_recycled_clients_total counter\n";
        for (rule, _, recycled, _) in limiter.rules() {
            let _ = writeln!(page, "ratelimit_check_recycled_clients_total{{rule=\"{}\"}} {recycled}", rule.name());
        }
        page
    }
}
