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
    if let Some((owner, others)) = owner.and_then(|owner| Some((owner, others(rule, is_meant, owner, false)?))) {
        return Some((Change::end_owner(rule.target, *owner), format!(": {in_force} stays for {others}")));
    }
    if is_meant(&rule.spec, rule.comment.as_deref()) {
        let returns = covered.map(|covered| format!(", {} again", write::spec(&covered.spec)));
        return Some((Change::delete(rule.target), returns.unwrap_or_default()));
    }
    let returning = rule.covered()?;
    let below = write::spec(&returning.spec);
    if let Some((owner, others)) = owner.and_then(|owner| Some((owner, others(&returning, is_meant, owner, true)?))) {
        let text = format!(": {below} returns after {in_force} for {others}");
        return Some((Change::end_owner_below(rule.target, *owner), text));
    }
    let has_owner = returning.owners.iter().any(|owner| is_meant(&returning.spec, owner.comment.as_deref()));
    if !has_owner && !is_meant(&returning.spec, returning.comment.as_deref()) {
        return None;
    }
    Some((Change::delete_below(rule.target), format!(": {below} does not return after {in_force}")))
}

/// Returns the owners that a rule keeps without this one, in words. None if this is the only one, or none of them. A
/// rule below another keeps only those without an end.
fn others(rule: &Listed, is_meant: Matches<'_>, owner: &Comment, is_below: bool) -> Option<String> {
    let owners = [(rule.comment.as_deref(), rule.expires_in)];
    let owners = owners.into_iter().chain(rule.owners.iter().map(|owner| (owner.comment.as_deref(), owner.expires_in)));
    let is_meant = |comment: &Option<&str>| is_meant(&rule.spec, *comment) && *comment == owner.get();
    let (ending, staying): (Vec<_>, Vec<_>) = owners.partition(|(comment, _)| is_meant(comment));
    let text = |(comment, left): &(Option<&str>, Option<std::time::Duration>)| {
        let comment = comment.map_or_else(|| "who gave no comment".to_owned(), |comment| format!("{comment:?}"));
        comment + &left.map_or_else(String::new, |left| format!(", {}", units::write_duration(left)))
    };
    let words: Vec<String> = staying.iter().map(text).collect();
    let stays = if is_below { staying.iter().any(|(_, left)| left.is_none()) } else { !staying.is_empty() };
    (!ending.is_empty() && stays).then(|| words.join("; "))
}
