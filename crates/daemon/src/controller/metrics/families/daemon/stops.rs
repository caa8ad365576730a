//! Requests to stop clients at the network card.

use ratelimit_protocol::stops::Reason;

use super::super::page::Family;
use crate::controller::stops::Counts;

/// Returns the families, if the file has the table `[stops]`.
pub(in crate::controller::metrics) fn families(counts: &Counts) -> Vec<Family> {
    if !counts.is_on {
        return Vec::new();
    }
    let mut requests = Family::counter(
        "ratelimit_stop_requests_total",
        "Requests of applications to stop a client, by what became of them.",
    );
    requests.add([("outcome", "stopped")], counts.stopped);
    requests.add([("outcome", "would-stop")], counts.would_stop);
    requests.add([("outcome", "already")], counts.already);
    for reason in Reason::ALL {
        requests.add([("outcome", reason.name())], counts.refused.get(&reason).copied().unwrap_or(0));
    }
    let help = "Sources that are limited now for an application.";
    let in_force = Family::gauge("ratelimit_stops_in_force", help).of(counts.in_force as u64);
    let help = "Sources that would be limited now for an application, if not for shadow.";
    vec![requests, in_force, Family::gauge("ratelimit_stops_in_shadow", help).of(counts.in_shadow as u64)]
}
