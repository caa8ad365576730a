//! How the rule of a target is deleted.

use ratelimit_base::text::units;
use ratelimit_common::rules::comment::Comment;
use ratelimit_dataplane::rules::{batch::Change, list::Listed, spec::RuleSpec};

use crate::limit::write;

/// Returns whether a rule with a comment is meant.
pub type Matches<'a> = &'a dyn Fn(&RuleSpec, Option<&str>) -> bool;

/// Returns how to delete the rule of a target that `is_meant`: the one in force, or the one that it covers. Where only
/// those with the comment `owner` are meant, the rule stays for its other owners. The second value says what applies
/// then, for the end of a line.
pub fn deletion(rule: &Listed, is_meant: Matches<'_>, owner: Option<&Comment>) -> Option<(Change, String)> {
    let in_force = write::spec(&rule.spec);
    let covered = rule.covers.as_ref();
    if let Some((owner, others)) = owner.and_then(|owner| Some((owner, others(rule, is_meant, owner)?))) {
        return Some((Change::end_owner(rule.target, *owner), format!(": {in_force} stays for {others}")));
    }
    if is_meant(&rule.spec, rule.comment.as_deref()) {
        let returns = covered.map(|covered| format!(", {} again", write::spec(&covered.spec)));
        return Some((Change::delete(rule.target), returns.unwrap_or_default()));
    }
    let below = covered.filter(|covered| is_meant(&covered.spec, covered.comment.as_deref()))?;
    let text = format!(": {} does not return after {in_force}", write::spec(&below.spec));
    Some((Change::delete_below(rule.target), text))
}

/// Returns the owners that a rule keeps without this one, in words. None if this is the only one, or none of them.
fn others(rule: &Listed, is_meant: Matches<'_>, owner: &Comment) -> Option<String> {
    let owners = [(rule.comment.as_deref(), rule.expires_in)];
    let owners = owners.into_iter().chain(rule.owners.iter().map(|owner| (owner.comment.as_deref(), owner.expires_in)));
    let is_meant = |comment: &Option<&str>| is_meant(&rule.spec, *comment) && *comment == owner.get();
    let (ending, staying): (Vec<_>, Vec<_>) = owners.partition(|(comment, _)| is_meant(comment));
    let text = |(comment, left): &(Option<&str>, Option<std::time::Duration>)| {
        let comment = comment.map_or_else(|| "who gave no comment".to_owned(), |comment| format!("{comment:?}"));
        comment + &left.map_or_else(String::new, |left| format!(", {}", units::write_duration(left)))
    };
    let words: Vec<String> = staying.iter().map(text).collect();
    (!ending.is_empty() && !words.is_empty()).then(|| words.join("; "))
}
