//! The fleet of the daemon: its engine, and hosts that share nothing with this one.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use ratelimit_base::certificate_end::CertificateEnd;
use ratelimit_daemon::controller::socket::{
    client,
    folder::DAEMON,
    request::{Reply, Request},
};
use ratelimit_protocol::fleet::{Member, Status};

use super::finding::{Check, Finding, count};

/// Part of the time between two reports that an answer may take.
const SLOW: f64 = 0.5;
/// A certificate that ends within this time has a finding.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
/// Reports for which a share holds.
const HELD: f64 = 4.0;

/// Returns what the daemon of the instance with these pins knows of its fleet. None without one.
pub(super) fn status(pins: &Path) -> Option<Status> {
    if let Ok(Reply::Fleet(status)) = client::ask(pins, DAEMON, Request::Fleet) { status } else { None }
}

/// Returns the findings about a fleet at this time.
pub(super) fn examine(status: &Status, now: Timestamp) -> Vec<Finding> {
    let Status { engine, hosts, period_seconds: period, .. } = status;
    let mut findings = Vec::new();
    if !status.is_up {
        let error = status.error.as_deref().unwrap_or("it was not yet reached");
        let what = format!("the engine {engine} does not answer: {error}");
        findings.push(Finding::warning(
            Check::Fleet,
            &what,
            "Each host admits its whole limit until the engine answers. The unit of the daemon reaches only addresses in IPAddressAllow=.",
        ));
    }
    if let Some(policy) = &status.evicts {
        let why = "When its memory is full, the engine forgets what sources were admitted, and hosts admit too much.";
        let finding = Finding::warning(Check::Fleet, &format!("the engine has maxmemory-policy {policy}"), why);
        findings.push(finding.fixed_by("redis-cli CONFIG SET maxmemory-policy noeviction"));
    }
    if let Some(latency) = status.latency_seconds.filter(|latency| *latency > SLOW * period) {
        let [latency, period] = [latency, *period].map(|seconds| seconds * 1e3);
        let what = format!("an answer of the engine takes {latency:.0} ms, and hosts report each {period:.0} ms");
        findings.push(Finding::warning(Check::Fleet, &what, "Shares follow traffic too slowly. Set a longer period."));
    }
    let others: Vec<_> = status.others().map(Member::name).collect();
    if !others.is_empty() {
        let what = format!("hosts with another default limit: {}", others.join(", "));
        findings.push(Finding::warning(Check::Fleet, &what, "They share no limit with this host."));
    }
    if let Some(problem) = status.denies.as_ref().and_then(|denies| denies.problem.as_ref()) {
        let why = "Sources that are denied on one host reach the others.";
        findings.push(Finding::warning(Check::Fleet, problem, why));
    }
    if let Some(rules) = &status.rules {
        let refused =
            rules.refused.iter().map(|why| format!("version {} of the shared rules is refused: {why}", rules.version));
        for problem in refused.chain(rules.problem.clone()) {
            let why =
                "Hosts of the fleet have different rules. `ratelimit fleet status` shows which host has which version.";
            findings.push(Finding::warning(Check::Fleet, &problem, why));
        }
    }
    let lagging: Vec<_> =
        status.members.iter().filter(|member| member.about.refused.is_some()).map(Member::name).collect();
    if !lagging.is_empty() && status.rules.as_ref().is_none_or(|rules| rules.refused.is_none()) {
        let what = format!("hosts that refuse the newest shared rules: {}", lagging.join(", "));
        let why = "`ratelimit fleet status` tells why.";
        findings.push(Finding::warning(Check::Fleet, &what, why));
    }
    let slow = status.sources.iter().find(|source| source.limit_per_second * HELD * period < *hosts as f64);
    if let Some(source) = slow {
        let what = format!("{} hosts share {}/s of {}", hosts, source.limit_per_second, source.source);
        let why = "A host gets less than one packet while a share holds, so the source gets less than its limit. Set a longer period.";
        findings.push(Finding::note(Check::Fleet, &what, why));
    }
    findings.extend(status.certificates.iter().filter_map(|certificate| about_end(certificate, now)));
    if findings.is_empty() {
        let what = format!("{engine} answers, and shares limits among {}", count(*hosts as u64, "host"));
        findings.push(Finding::ok(Check::Fleet, &what));
    }
    findings
}

/// Returns a finding about a certificate that has ended, or ends soon.
fn about_end(certificate: &CertificateEnd, now: Timestamp) -> Option<Finding> {
    let CertificateEnd { key, ends_at } = certificate;
    if ends_at.duration_since(now) > SOON {
        return None;
    }
    let tense = if *ends_at <= now { "has ended" } else { "ends" };
    let which = if key == "ca-file" { "the last valid certificate" } else { "a certificate" };
    let what = format!("{which} of {key} {tense} on {}", ends_at.strftime("%Y-%m-%d"));
    let why =
        "Encrypted connections to the engine fail without a valid certificate. Replace it in the file, and reload.";
    Some(Finding::note(Check::Fleet, &what, why).fixed_by("ratelimit reload"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratelimit_protocol::fleet::{About, Denies, SharedRules, SharedSource};

    fn member(id: &str, limit: &str) -> Member {
        let about = About { name: id.to_owned(), limit: limit.to_owned(), ..About::default() };
        Member { id: id.to_owned(), silent_seconds: 0.0, about }
    }

    fn status() -> Status {
        Status {
            engine: "10.0.0.1:6379".to_owned(),
            is_up: true,
            latency_seconds: Some(0.001),
            period_seconds: 0.2,
            id: "a".to_owned(),
            hosts: 2,
            members: vec![member("a", "10/s"), member("b", "10/s")],
            ..Status::default()
        }
    }

    fn what(status: &Status) -> Vec<String> {
        examine(status, Timestamp::UNIX_EPOCH)
            .iter()
            .map(|finding| format!("{} {}", finding.severity.name(), finding.what))
            .collect()
    }

    #[test]
    fn each_problem_of_a_fleet_has_a_finding() {
        assert_eq!(what(&status()), ["ok 10.0.0.1:6379 answers, and shares limits among 2 hosts"]);
        let certificate = |(key, days): (&str, i64)| CertificateEnd {
            key: key.to_owned(),
            ends_at: Timestamp::from_second(days * 86_400).unwrap(),
        };
        let source = SharedSource {
            source: "192.0.2.1".to_owned(),
            service: "any".to_owned(),
            limit_per_second: 2.0,
            offered_per_second: 5.0,
            share: None,
        };
        let bad = Status {
            is_up: false,
            error: Some("no answer within 200 ms".to_owned()),
            evicts: Some("allkeys-lru".to_owned()),
            latency_seconds: Some(0.15),
            members: vec![member("a", "10/s"), member("b", "20/s")],
            sources: vec![source],
            denies: Some(Denies { problem: Some("hosts cannot tell".to_owned()), ..Denies::default() }),
            rules: Some(SharedRules { version: 7, refused: Some("too much".to_owned()), ..SharedRules::default() }),
            certificates: [("ca-file", 0), ("certificate-file", 14), ("key-file", 15)].map(certificate).to_vec(),
            ..status()
        };
        assert_eq!(
            what(&bad),
            [
                "warning the engine 10.0.0.1:6379 does not answer: no answer within 200 ms",
                "warning the engine has maxmemory-policy allkeys-lru",
                "warning an answer of the engine takes 150 ms, and hosts report each 200 ms",
                "warning hosts with another default limit: b",
                "warning hosts cannot tell",
                "warning version 7 of the shared rules is refused: too much",
                "note 2 hosts share 2/s of 192.0.2.1",
                "note the last valid certificate of ca-file has ended on 1970-01-01",
                "note a certificate of certificate-file ends on 1970-01-15",
            ]
        );
    }
}
