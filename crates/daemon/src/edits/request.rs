//! Rules to set, as one change.

use std::time::Duration;

use ratelimit_common::rules::{comment::Comment, rule::COMMAND};
use ratelimit_dataplane::rules::{
    batch::{self, Change, Protected},
    spec::RuleSpec,
    target::Target,
};

/// A rule to set.
#[derive(Debug)]
pub struct Request {
    pub target: Target,
    pub spec: RuleSpec,
    pub life: Option<Duration>,
    /// An empty one removes the comment. None keeps that of the same rule.
    pub comment: Option<Comment>,
    /// Whether the throttle is that of a limit before, which needs no capacity of an interface.
    pub keeps_throttle: bool,
}

/// Returns the change that sets these rules. Without `force`, it replaces no rule *allow* of an operator by another one.
pub fn change(requests: &[Request], force: bool) -> Change {
    let protected = if force { Protected::None } else { Protected::Replaced };
    let mut change = Change { protected, keeps_comments: true, ..Change::default() };
    change.awaits_capacity = requests.iter().all(|request| request.keeps_throttle);
    for (place, Request { target, spec, life, comment, .. }) in requests.iter().enumerate() {
        change.specs.push(spec.clone());
        change.add(*target, place, batch::change::end(*life), COMMAND, *comment);
    }
    change
}
