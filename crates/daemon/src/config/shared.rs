//! Rules that the hosts of a fleet share, as text: tables `[[rule]]`, which deny sources or limit them.

use std::collections::HashSet;

use ratelimit_base::{
    tables::{
        problem::Problem,
        table::{Page, Table},
    },
    text::prefix::Prefix,
};
use ratelimit_common::{
    limits::policy::{DROP, Policy},
    maps::control::IPV6_PREFIX_DEFAULT,
};
use ratelimit_dataplane::rules::target::{Sources, Target};
use serde::Serialize;
use toml::de::DeTable;

use super::{
    policies::Policies,
    rules::{Planned, Rules},
    save::{Moment, Rule, moment_of},
    saved::spec,
};

/// The most rules.
pub const MOST: usize = 1_000;
/// The most different limits, since each takes a list.
pub const LIMITS: usize = 8;

/// Reads shared rules.
///
/// # Errors
///
/// Fails with the first problem in one line.
pub fn read(text: &str) -> Result<Vec<Planned>, String> {
    let (entries, errors) = DeTable::parse_recoverable(text);
    if let Some(error) = errors.first() {
        return Err(format!("the text is no TOML: {}", error.message()));
    }
    let page = Page::new(text);
    let top = Table::new(&page, 0..0, entries.get_ref());
    top.expect_keys(&["rule"], &[]);
    let policies = Policies::read(&top, IPV6_PREFIX_DEFAULT as u8, false);
    let mut rules = Rules::new(&policies);
    let tables = top.get("rule").map(|value| value.tables("rule")).unwrap_or_default();
    tables.iter().for_each(|table| rules.add(table));
    let planned = rules.done();
    if let Some(Problem { message, .. }) = page.problems().into_iter().next() {
        return Err(message);
    }
    check(&planned)?;
    Ok(planned)
}

/// Checks what a fleet may tell a host.
fn check(rules: &[Planned]) -> Result<(), String> {
    if rules.len() > MOST {
        return Err(format!("a fleet has at most {MOST} shared rules"));
    }
    let mut limits = HashSet::new();
    for Planned { target, spec, .. } in rules {
        let policy = &spec.policy;
        let problem = match target.sources {
            Sources::Default => Some("a shared rule is for an address or a prefix"),
            Sources::Prefix(prefix) if prefix.is_too_wide() => Some("a shared rule has at least 8 bits, or 16 in IPv6"),
            _ if *target != Target { service: ratelimit_common::identity::service::Service::Any, ..*target } => {
                Some("a shared rule is for all packets of a source: omit the service")
            }
            _ if *policy == Policy::ALLOWED => Some("a shared rule cannot allow: what is shared can only slow"),
            _ if !spec.parents.is_empty()
                || policy.ban.time != 0
                || policy.soft != 0
                || policy.elastic != 0
                || policy.over_limit != DROP =>
            {
                Some("a shared limit has rates, a burst and an algorithm only")
            }
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(format!("{target}: {problem}"));
        }
        if *policy != Policy::DENIED {
            limits.insert(spec);
        }
    }
    if limits.len() > LIMITS {
        return Err(format!("shared rules have at most {LIMITS} different limits"));
    }
    Ok(())
}

/// Returns the prefix of a shared rule.
#[must_use]
pub fn prefix(rule: &Planned) -> Option<Prefix> {
    match rule.target.sources {
        Sources::Prefix(prefix) => Some(prefix),
        Sources::Default => None,
    }
}

/// Writes shared rules. [`read`] returns the same ones.
///
/// # Errors
///
/// Fails with why they cannot be written.
pub fn write(rules: &[Planned]) -> Result<String, String> {
    #[derive(Serialize)]
    struct Text {
        rule: Vec<Rule>,
    }
    let rule = |planned: &Planned| {
        let comment = planned.comment.as_ref().and_then(|comment| comment.get()).map(ToOwned::to_owned);
        let (source, until) =
            (planned.target.sources.to_string(), planned.until.and_then(moment_of).map(Moment::Value));
        Rule { source, service: None, until, spec: super::saved::Saved { comment, ..spec(&planned.spec) } }
    };
    toml::to_string(&Text { rule: rules.iter().map(rule).collect() }).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let text = "[[rule]]\nsource = \"203.0.113.0/24\"\npolicy = \"deny\"\ncomment = \"scans\"\n\
                    [[rule]]\nsource = \"198.51.100.7\"\nuntil = 2100-01-31T12:00:00Z\npackets = \"10/s\"\nburst = 20\n\
                    [[rule]]\nsource = \"2001:db8::/48\"\npackets = \"10/m\"\nbytes = \"1MB/s\"\nalgorithm = \"fixed-window\"\n";
        let rules = read(text).unwrap();
        assert_eq!(rules.len(), 3);
        assert_eq!(read(&write(&rules).unwrap()).unwrap(), rules);
        assert_eq!(read(&write(&[]).unwrap()).unwrap(), []);
    }

    #[test]
    fn what_a_fleet_may_not_tell_is_refused() {
        let rule = |keys: &str| format!("[[rule]]\nsource = \"198.51.100.7\"\n{keys}\n");
        for (text, expected) in [
            ("rule = 1".to_owned(), "expected [[rule]] in two pairs of brackets"),
            ("[[rule".to_owned(), "the text is no TOML"),
            ("interfaces = []".to_owned(), "unknown key"),
            (rule("policy = \"allow\""), "198.51.100.7: a shared rule cannot allow"),
            (rule("policy = \"mine\""), "no such policy"),
            (rule("packets = \"10/s\"\nservice = \"tcp/80\""), "a shared rule is for all packets"),
            (rule("packets = \"10/s\"\nban = \"1m\""), "a shared limit has rates"),
            (rule("packets = \"10/s\"\nparent = \"/24=20/s\""), "a shared limit has rates"),
            (rule("packets = \"10/s\"\nthrottle = \"soft=10%\""), "a shared limit has rates"),
            (rule("packets = \"10/s\"\nover-limit = \"shadow\""), "a shared limit has rates"),
            (rule("packets = \"10/s\"\nover-limit = \"reject\""), "a shared limit has rates"),
            (rule("packets = \"10/x\""), "expected"),
            (
                "[[rule]]\nsource = \"default\"\npackets = \"10/s\"".to_owned(),
                "default: a shared rule is for an address",
            ),
            (
                "[[rule]]\nsource = \"0.0.0.0/0\"\npolicy = \"deny\"".to_owned(),
                "0.0.0.0/0: a shared rule has at least 8 bits",
            ),
            (rule("policy = \"deny\"").repeat(2), "198.51.100.7 already has a rule"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
        let many = |count: usize, packets: fn(usize) -> usize| {
            let each = (0..count).map(|it| {
                format!("[[rule]]\nsource = \"10.0.{}.{}\"\npackets = \"{}/s\"\n", it / 256, it % 256, packets(it))
            });
            read(&each.collect::<String>())
        };
        assert!(many(LIMITS, |it| it + 1).is_ok() && many(MOST, |_| 1).is_ok());
        assert!(many(LIMITS + 1, |it| it + 1).unwrap_err().contains("different limits"));
        assert!(many(MOST + 1, |_| 1).unwrap_err().contains("at most 1000"));
    }
}
