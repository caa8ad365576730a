//! How the rule of a target is deleted.

use ratelimit_dataplane::rules::{batch::Change, list::Listed, spec::RuleSpec};

use crate::limit::write;

/// Returns whether a rule with a comment is meant.
pub type Matches<'a> = &'a dyn Fn(&RuleSpec, Option<&str>) -> bool;

/// Returns how to delete the rule of a target that `is_meant`: the one in force, or the one that it covers. The second
/// value says what applies then, for the end of a line.
pub fn deletion(rule: &Listed, is_meant: Matches<'_>) -> Option<(Change, String)> {
    let in_force = write::spec(&rule.spec);
    let covered = rule.covers.as_ref();
    if is_meant(&rule.spec, rule.comment.as_deref()) {
        let returns = covered.map(|covered| format!(", {} again", write::spec(&covered.spec)));
        return Some((Change::delete(rule.target), returns.unwrap_or_default()));
    }
    let below = covered.filter(|covered| is_meant(&covered.spec, covered.comment.as_deref()))?;
    let text = format!(": {} does not return after {in_force}", write::spec(&below.spec));
    Some((Change::delete_below(rule.target), text))
}
