//! A real Prometheus scrapes the server, and evaluates its dashboard and its alerts.

use std::fs;

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

use super::RULES;
use crate::metrics::prometheus::{Prometheus, expressions, names, promtool};

const DASHBOARD: &str = include_str!("../../../../dist/grafana-check.json");
const MONITORING: &str = include_str!("../../../../docs/monitoring.md");
const ALERTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist/ratelimit-check.rules.yml");
const ALERT_TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/check_alerts.yml");

#[test]
fn prometheus_finds_every_series_of_the_dashboard_and_of_the_alerts() {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let place = folder.file().parent().unwrap().to_owned();
    // Its metrics do not need an engine that answers.
    let fleet = "[fleet]\nengine = \"redis://127.0.0.1:1\"\n";
    let usage = format!("usage = \"{}\"\n", place.join("usage.db").display());
    let rules = format!("rules = \"{}\"\n", place.join("rules.toml").display());
    let more = format!("metrics = \"127.0.0.1:9465\"\nstops = \"{}\"\n", place.join("stops").display());
    folder.write(&format!("[serve]\nhttp = \"127.0.0.1:8080\"\n{more}{rules}{usage}{fleet}{RULES}"));
    let command = Ratelimit::new(&sandbox).command(&format!("serve -c {}", folder.file().display()));
    let mut daemon = Daemon::by(&sandbox, command);
    // The engine and the daemon can fail first.
    let lines = [daemon.line(), daemon.line(), daemon.line()];
    let serving = "ratelimit: serving http://127.0.0.1:8080 by 1 rule, metrics on http://127.0.0.1:9465";
    assert!(lines.iter().any(|line| line == serving), "{lines:?}");
    let call = |port: u16, path: &str, body: Option<&str>| {
        sandbox.victim(|| {
            let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
            let url = format!("http://127.0.0.1:{port}{path}");
            let answer = match body {
                Some(body) => agent.post(&url).send(body),
                None => agent.get(&url).call(),
            };
            answer.unwrap().body_mut().read_to_string().unwrap()
        })
    };
    // The scrape of the documents.
    let (_, scrape) = MONITORING.split_once("- job_name: ratelimit-check\n").unwrap();
    let scrape = format!("{{job_name: ratelimit-check, {}}}", scrape.split_once("\n```").unwrap().0.trim());
    let server = Prometheus::start(&sandbox, &place, ALERTS, &scrape);
    let refused = "ratelimit_check_rule_requests_total{rule=\"create-url\",decision=\"refused\"}";
    server.reaches(refused, 0);
    for _ in 0..5 {
        call(8080, "/v1/check", Some(r#"{"attributes": {"operation": "createURL", "user": "17"}}"#));
    }
    server.reaches(refused, 2);
    server.reaches("sum(ratelimit_check_decisions_total)", 5);

    let error = Ratelimit::new(&sandbox).fails("rules get create-url --server http://127.0.0.1:9465");
    assert!(error.contains("127.0.0.1:9465 has no rules of callers: name the address `http`"), "{error}");

    let page = call(9465, "/metrics", None);
    promtool(&["check", "metrics"], &page);
    let (exported, alerts) = (names(&page), fs::read_to_string(ALERTS).unwrap());
    let expressions = expressions(DASHBOARD);
    assert!(expressions.len() > 15);
    for text in expressions.iter().chain([&alerts]) {
        let unknown: Vec<_> = names(text).difference(&exported).copied().collect();
        assert!(unknown.is_empty(), "{unknown:?} of {text}");
    }
    for expression in expressions {
        let query = expression.replace("$job", "ratelimit-check").replace("$instance", ".*");
        let query = query.replace("$__rate_interval", "1m");
        assert!(!query.contains('$'), "{query}");
        server.wait("query", &query, |data| data["result"].as_array().is_some_and(|result| !result.is_empty()));
    }
    let groups = server.wait("rules", "", |data| !data.to_string().contains("\"health\":\"unknown\""));
    let rules = groups["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), alerts.matches("- alert:").count());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}

#[test]
fn promtool_accepts_the_alerts_about_requests() {
    promtool(&["check", "rules", ALERTS], "");
    promtool(&["test", "rules", ALERT_TESTS], "");
}
