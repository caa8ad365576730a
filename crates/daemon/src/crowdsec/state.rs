//! What the daemon tells commands about decisions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The local API, and what of its decisions is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The address of the API.
    pub url: String,
    /// Decisions that stand, as far as the daemon knows. None before the first answer.
    pub decisions: Option<usize>,
    /// Entries of the list in force.
    pub in_force: u64,
    /// Decisions that are not put in force: other types, other scopes, and ranges that are too wide.
    pub ignored: usize,
    /// Decisions for which there is no space.
    pub left_out: usize,
    /// Time since the last answer that was used. None before the first.
    pub answered_seconds_ago: Option<u64>,
    /// What is wrong now. None if the API answers, and its decisions are in force.
    pub problem: Option<String>,
}

/// Tells it for example as `2 decisions, 1 entry in force, last answer 3s ago`.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, decisions, in_force, left_out, answered_seconds_ago, problem, .. } = self;
        let entries = if *in_force == 1 { "1 entry".to_owned() } else { format!("{in_force} entries") };
        match (problem, decisions) {
            (None, None) => return write!(f, "waits for {url}, {entries} in force"),
            (_, Some(1)) => write!(f, "1 decision, {entries} in force")?,
            (_, Some(decisions)) => write!(f, "{decisions} decisions, {entries} in force")?,
            (_, None) => write!(f, "no decision known, {entries} in force")?,
        }
        if *left_out != 0 {
            write!(f, ", no space for {left_out}")?;
        }
        if let Some(seconds) = answered_seconds_ago {
            write!(f, ", last answer {seconds}s ago")?;
        }
        problem.as_ref().map_or(Ok(()), |problem| write!(f, "; {problem}"))
    }
}
