//! What a change wants, as the change of rules that a command makes.

use clap::{Parser as _, error::ContextKind};
use jiff::Timestamp;
use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{
    identity::service::Service,
    limits::{
        limit::Limit,
        policy::{LIMIT, Policy},
    },
    rules::{comment::Comment, rule::COMMAND},
};
use ratelimit_dataplane::rules::{
    batch::Change,
    list::Listed,
    owners::Sharing,
    spec::RuleSpec,
    target::{Sources, Target},
};
use ratelimit_protocol::view::{Kind, Place, Terms, Wanted};

use crate::{
    controller::view::words::origin,
    edits::{
        deletion::deletion,
        limit::{Wish, is_limit},
        request::{self, Request},
    },
    limit::{Rates, excess, write},
};

/// How a limit begins anew. Here, all that it has beside the fields stays.
const ANEW: &str = "the command `ratelimit limit set --replace`";

/// A change that is possible.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) change: Change,
    /// What the rule will be. None deletes it.
    pub(super) after: Option<Listed>,
    /// The command that makes the same change.
    pub(super) command: String,
}

#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true)]
struct Options {
    #[command(flatten)]
    rates: Rates,
}

/// Reads the packets of a rule.
pub(super) fn target(place: &Place) -> Result<Target, String> {
    let sources = place.sources.parse::<Sources>().map_err(|error| format!("sources: {error}"))?;
    if place.service.is_empty() {
        return Ok(sources.into());
    }
    let service = place.service.parse::<ServiceName>().map_err(|error| format!("service: {error}"))?;
    Ok(Target::from(sources).of(service.0))
}

/// Returns a rule in words, as far as a change could overlook it.
pub(super) fn words(rule: &Listed) -> String {
    let mut text = if is_limit(&rule.spec) { write::limit(&rule.spec) } else { write::spec(&rule.spec) };
    if let Some(name) = rule.spec.name() {
        text += &format!(", policy {name}");
    }
    if let Some(left) = rule.expires_in {
        let end = Timestamp::now().as_millisecond().saturating_add(i64::try_from(left.as_millis()).unwrap_or(i64::MAX));
        // Each reading has another millisecond.
        let end = Timestamp::from_second(end.saturating_add(500) / 1_000);
        text += &end.map_or_else(|_| ", ends by itself".to_owned(), |end| format!(", ends at {end}"));
    }
    if let Some(covered) = &rule.covers {
        text += &format!(", then {} again", write::spec(&covered.spec));
    }
    if let Some(comment) = &rule.comment {
        text += &format!(", comment {comment:?}");
    }
    format!("{text}, set by {}", origin(rule.origin))
}

/// Returns the fields of a rule, or why only commands change it.
pub(super) fn terms(rule: &Listed) -> Result<Terms, String> {
    if rule.covers.is_some() {
        return Err("The rule covers another one until it ends. Change it by a command.".to_owned());
    }
    let policy = &rule.spec.policy;
    let comment = rule.comment.as_deref().unwrap_or_default().to_owned();
    let drop = || "drop".to_owned();
    match policy.kind {
        _ if *policy == Policy::ALLOWED => {
            Ok(Terms { kind: Kind::Allow, over_limit: drop(), comment, ..Terms::default() })
        }
        _ if policy.is_deny() => Ok(Terms { kind: Kind::Deny, over_limit: drop(), comment, ..Terms::default() }),
        LIMIT => {
            let limit = Limit::of(policy);
            // A burst that the rate gives by default changes with the rate.
            let default = Limit { burst: None, ..limit }.policy().map_or(0, |policy| policy.given.burst);
            let burst = limit.burst.filter(|burst| *burst != default);
            Ok(Terms {
                kind: Kind::Limit,
                packets: write::packets(policy).unwrap_or_default(),
                bytes: write::bytes(policy).unwrap_or_default(),
                burst: burst.map_or_else(String::new, |burst| burst.to_string()),
                over_limit: excess::over_limit(policy).to_owned(),
                comment,
            })
        }
        _ => Err("Only commands change this rule.".to_owned()),
    }
}

impl Plan {
    /// Returns the change of a target that has this rule.
    pub(super) fn of(wanted: &Wanted, target: Target, existing: Option<&Listed>) -> Result<Self, String> {
        let before = existing.map(terms).transpose()?;
        let Some(terms) = &wanted.terms else {
            let (rule, before) = existing.zip(before).ok_or_else(|| format!("{target} has no rule to delete."))?;
            let (change, _) = deletion(rule, &|_, _| true, None).ok_or("The rule cannot be deleted.")?;
            let verb = match before.kind {
                Kind::Limit => "limit del",
                Kind::Deny => "deny del",
                Kind::Allow => "allow del",
            };
            return Ok(Self { target, change, after: None, command: format!("{verb} {}", arguments(target)) });
        };
        let comment = Comment::new(&terms.comment).map_err(|error| format!("comment: {error}"))?;
        let (request, mut command) = match terms.kind {
            Kind::Limit => limit(terms, before.as_ref(), target, existing, comment)?,
            kind => verdict(kind, target, existing, comment)?,
        };
        if let Some(comment) = comment.get() {
            command += &format!(" --comment={comment:?}");
        }
        let after = Listed {
            comment: comment.get().map(Into::into),
            ..Listed::set(target, request.spec.clone(), request.life)
        };
        debug_assert_eq!(after.origin, COMMAND);
        let change = Change { sharing: Sharing::Renamed, ..request::change(&[request], false) };
        Ok(Self { target, change, after: Some(after), command })
    }
}

/// Returns a target as arguments of a command.
fn arguments(target: Target) -> String {
    match target.service {
        Service::Any => target.sources.to_string(),
        service => format!("{} --service {}", target.sources, ServiceName(service)),
    }
}

/// Changes the fields of a limit that differ, and keeps the rest.
fn limit(
    terms: &Terms,
    before: Option<&Terms>,
    target: Target,
    existing: Option<&Listed>,
    comment: Comment,
) -> Result<(Request, String), String> {
    let new = Terms { over_limit: "drop".to_owned(), ..Terms::default() };
    let before = before.filter(|before| before.kind == Kind::Limit).unwrap_or(&new);
    let fields = [
        ("packets", &terms.packets, &before.packets, "off"),
        ("bytes", &terms.bytes, &before.bytes, "off"),
        ("burst", &terms.burst, &before.burst, "auto"),
        ("over-limit", &terms.over_limit, &before.over_limit, "drop"),
    ];
    let mut words = Vec::new();
    for (name, text, _, without) in fields.into_iter().filter(|(_, text, before, _)| text != before) {
        let word = format!("--{name}={}", if text.is_empty() { without } else { text });
        Options::try_parse_from([&word]).map_err(|error| problem(name, &error))?;
        words.push(word);
    }
    let Options { rates } = Options::try_parse_from(&words).map_err(|error| problem("limit", &error))?;
    let wish = Wish { rates: &rates, end: None, comment: Some(comment), replace: false, anew: ANEW };
    let request = wish.request(target, existing).map_err(|error| format!("{error:#}"))?;
    let words: String = words.iter().map(|word| format!(" {word}")).collect();
    Ok((request, format!("limit set {}{words}", arguments(target))))
}

fn verdict(
    kind: Kind,
    target: Target,
    existing: Option<&Listed>,
    comment: Comment,
) -> Result<(Request, String), String> {
    if target.sources == Sources::Default {
        return Err("sources: expected a prefix, because the default is always a limit".to_owned());
    }
    if existing.is_some_and(|rule| rule.expires_in.is_some()) {
        return Err("The rule that is there ends by itself. Delete it first.".to_owned());
    }
    let (name, policy) = if kind == Kind::Allow { ("allow", Policy::ALLOWED) } else { ("deny", Policy::DENIED) };
    let spec = RuleSpec::from(policy);
    let request = Request { target, spec, life: None, comment: Some(comment), keeps_throttle: false };
    Ok((request, format!("{name} add {}", arguments(target))))
}

/// Returns the problem of an option in one line.
fn problem(name: &str, error: &clap::Error) -> String {
    let value = error.get(ContextKind::InvalidValue).map(ToString::to_string).unwrap_or_default();
    let reason = std::error::Error::source(error).map(ToString::to_string);
    let reason =
        reason.or_else(|| error.get(ContextKind::ValidValue).map(|values| format!("expected one of {values}")));
    let whole = || error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    format!("{name}: {}", reason.map_or_else(whole, |reason| format!("{reason}, and not {value:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(sources: &str, service: &str, terms: Option<Terms>) -> Wanted {
        Wanted { place: Place { sources: sources.to_owned(), service: service.to_owned() }, terms }
    }

    fn of_limit(packets: &str) -> Terms {
        Terms { packets: packets.to_owned(), over_limit: "drop".to_owned(), ..Terms::default() }
    }

    fn plan(wanted: &Wanted, existing: Option<&Listed>) -> Result<Plan, String> {
        Plan::of(wanted, target(&wanted.place)?, existing)
    }

    #[test]
    fn a_limit_changes_the_fields_that_differ_and_keeps_the_rest() {
        let new = plan(&wanted("192.0.2.0/24", "udp/53", Some(of_limit("10/s"))), None).unwrap();
        assert_eq!(new.command, "limit set 192.0.2.0/24 --service udp/53 --packets=10/s");
        let rates =
            Options::try_parse_from(["--packets=10/s,500/h", "--parent=/16=1000/s", "--burst=7"]).unwrap().rates;
        let rule = Listed::set(Target::DEFAULT, rates.some_terms(Sources::Default).unwrap(), None);
        let fields = terms(&rule).unwrap();
        assert_eq!((fields.packets.as_str(), fields.burst.as_str()), ("10/s,500/h", "7"));
        let changed = Terms { packets: "20/s".to_owned(), burst: String::new(), comment: "a b".to_owned(), ..fields };
        let changed = plan(&wanted("default", "", Some(changed)), Some(&rule)).unwrap();
        assert_eq!(changed.command, "limit set default --packets=20/s --burst=auto --comment=\"a b\"");
        let words = words(changed.after.as_ref().unwrap());
        assert_eq!(words, "20/s per source, burst 20; parents /16=1000/s, comment \"a b\", set by a command");
    }

    #[test]
    fn verdicts_and_deletions_are_those_of_commands() {
        let deny = Terms { kind: Kind::Deny, ..Terms::default() };
        let denied = plan(&wanted("192.0.2.1", "", Some(deny.clone())), None).unwrap();
        assert_eq!(denied.command, "deny add 192.0.2.1");
        let rule = denied.after.unwrap();
        assert_eq!(plan(&wanted("192.0.2.1", "", None), Some(&rule)).unwrap().command, "deny del 192.0.2.1");
        let error = |wanted: Wanted, existing: Option<&Listed>| plan(&wanted, existing).unwrap_err();
        assert!(error(wanted("default", "", Some(deny.clone())), None).starts_with("sources: expected a prefix"));
        assert!(error(wanted("192.0.2.1", "", None), None).contains("no rule to delete"));
        let temporary = Listed { expires_in: Some(std::time::Duration::from_secs(9)), ..rule };
        assert!(error(wanted("192.0.2.1", "", Some(deny)), Some(&temporary)).contains("ends by itself"));
    }

    #[test]
    fn a_wrong_word_has_one_line() {
        for (sources, service, packets, expected) in [
            ("192.0.2.1/24", "", "1/s", "sources: "),
            ("x", "", "1/s", "sources: "),
            ("192.0.2.0/24", "udp/x", "1/s", "service: "),
            ("192.0.2.0/24", "", "often", "packets: expected packets per s, m, h or d"),
            ("192.0.2.0/24", "", "1/s,2/s,3/s", "a source has at most two limits"),
            ("192.0.2.0/24", "", "", "a limit needs"),
        ] {
            let error = plan(&wanted(sources, service, Some(of_limit(packets))), None).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains('\n'), "{packets}: {error}");
        }
        let hostile = Terms { comment: "a\nb".to_owned(), ..of_limit("1/s") };
        assert!(plan(&wanted("default", "", Some(hostile)), None).unwrap_err().starts_with("comment: "));
        let other = Terms { over_limit: "ban".to_owned(), ..of_limit("1/s") };
        let error = plan(&wanted("default", "", Some(other)), None).unwrap_err();
        assert_eq!(error, "over-limit: expected one of drop, reject, shadow, and not \"ban\"");
    }
}
