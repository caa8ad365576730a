//! The host's part in a fleet.

use ratelimit_protocol::fleet::Status;

use super::super::page::Family;

/// Returns the families of a host with this status.
pub(in crate::controller::metrics) fn families(status: &Status) -> Vec<Family> {
    let mut families = vec![
        Family::gauge(
            "ratelimit_fleet_engine_up",
            "1 if the engine of the fleet answers. Otherwise local limits apply.",
        )
        .of(status.is_up),
        Family::gauge("ratelimit_fleet_hosts", "Hosts of the fleet that the engine has heard of in 10 seconds.")
            .of(status.hosts as u64),
        Family::gauge("ratelimit_fleet_reported_sources", "Sources that this host reports to the engine.")
            .of(status.reported as u64),
        Family::gauge("ratelimit_fleet_shared_sources", "Reported sources that have a share of their limit here.")
            .of(status.shared as u64),
        Family::counter("ratelimit_fleet_reports_total", "Reports that the engine has answered.").of(status.reports),
        Family::counter("ratelimit_fleet_failures_total", "Calls that the engine has not answered, or refused.")
            .of(status.failures),
    ];
    if let Some(denies) = &status.denies {
        let help = "Sources that this host denies because others do.";
        families.push(Family::gauge("ratelimit_fleet_denied_sources", help).of(denies.in_force as u64));
        let help = "Denied sources that this host has told to others.";
        families.push(Family::gauge("ratelimit_fleet_told_sources", help).of(denies.told as u64));
    }
    if let Some(rules) = &status.rules {
        let help = "The version of the shared rules in force here, 0 if there is none.";
        let in_force = rules.in_force.unwrap_or_default();
        families.push(Family::gauge("ratelimit_fleet_rules_version", help).of(in_force));
        let help = "The newest version of the shared rules that this host knows.";
        families.push(Family::gauge("ratelimit_fleet_rules_newest_version", help).of(rules.version));
    }
    if let Some(latency) = status.latency_seconds {
        let help = "Time from the last report to its answer.";
        families.push(Family::gauge("ratelimit_fleet_latency_seconds", help).of(latency));
    }
    families
}
