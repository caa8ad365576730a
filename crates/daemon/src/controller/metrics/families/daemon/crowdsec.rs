//! Decisions of CrowdSec.

use std::time::UNIX_EPOCH;

use super::super::page::Family;
use crate::controller::crowdsec::Counts;

/// Returns the families, if the file has the table `[crowdsec]`. Its list is among the lists.
pub(in crate::controller::metrics) fn families(counts: &Counts) -> Vec<Family> {
    let Counts { state, in_force, answered, answers, failures } = counts;
    let mut questions = Family::counter(
        "ratelimit_crowdsec_requests_total",
        "Questions to the local API of CrowdSec by result. Nothing of a failed answer is used.",
    );
    questions.add([("result", "success")], *answers);
    questions.add([("result", "failure")], *failures);
    let help = "Decisions of CrowdSec by what the daemon does. \
        Those that are ignored or have no space are counted from one question for all decisions to the next.";
    let mut decisions = Family::gauge("ratelimit_crowdsec_decisions", help);
    decisions.add([("state", "in-force")], *in_force as u64);
    decisions.add([("state", "ignored")], state.ignored as u64);
    decisions.add([("state", "no-space")], state.left_out as u64);
    let help = "1 if the local API of CrowdSec answers, and its decisions are in force.";
    let mut families =
        vec![questions, decisions, Family::gauge("ratelimit_crowdsec_up", help).of(state.problem.is_none())];
    let answered = answered.and_then(|(_, at)| at.duration_since(UNIX_EPOCH).ok());
    families.extend(answered.map(|at| {
        let help = "When the local API of CrowdSec last answered, in seconds since 1970.";
        Family::gauge("ratelimit_crowdsec_last_answer_timestamp_seconds", help).of(at.as_secs_f64())
    }));
    families
}
