//! Shows the versions of the shared rules, and what each of them has changed.

use std::collections::HashMap;

use anyhow::Result;
use jiff::Timestamp;
use ratelimit_base::text::excerpt::escaped;
use ratelimit_common::limits::policy::Policy;
use ratelimit_daemon::{
    config::{Planned, shared},
    limit::write,
};
use ratelimit_dataplane::rules::target::Target;
use ratelimit_protocol::fleet::Logged;
use serde::Serialize;

use crate::cli::print::{
    answer::Answer,
    output::{Output, table},
};

/// Changes of a version in the table.
const SHOWN: usize = 3;

#[derive(Debug, Serialize)]
struct Row {
    version: u64,
    at: String,
    who: String,
    why: String,
    /// Null if it is not known.
    changes: Option<Vec<String>>,
}

/// Prints versions, the newest first.
pub(super) fn print(versions: &[Logged], output: Output) -> Result<Answer> {
    let rows = rows(versions);
    output.print(&rows, |out| {
        let cells = |row: &Row| {
            let changes = row.changes.as_deref().map_or_else(|| "not known".to_owned(), few);
            [row.version.to_string(), row.at.clone(), row.who.clone(), row.why.clone(), changes]
        };
        table(out, ["version", "at", "who", "why", "changes"], &rows.iter().map(cells).collect::<Vec<_>>())
    })?;
    Ok(Answer::Done)
}

fn rows(versions: &[Logged]) -> Vec<Row> {
    let rules: Vec<_> = versions.iter().map(|logged| shared::read(logged.text.as_ref()?).ok()).collect();
    let row = |(index, logged): (usize, &Logged)| {
        let at = i64::try_from(logged.at_milliseconds).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
        let at = at.unwrap_or(Timestamp::MAX).to_string();
        // Versions between two entries can be lost.
        let is_next = |older: &Logged| older.version.checked_add(1) == Some(logged.version);
        let before = match versions.get(index + 1) {
            Some(older) if is_next(older) => rules.get(index + 1).cloned().flatten(),
            _ => (logged.version == 1).then(Vec::new),
        };
        let changes = before.zip(rules.get(index).cloned().flatten()).map(|(before, after)| changes(&before, &after));
        Row { version: logged.version, at, who: logged.who.clone(), why: logged.why.clone(), changes }
    };
    versions.iter().enumerate().map(row).collect()
}

/// Returns each rule that differs: a new one with a plus, one that is gone with a minus.
fn changes(before: &[Planned], after: &[Planned]) -> Vec<String> {
    let old: HashMap<Target, &Planned> = before.iter().map(|rule| (rule.target, rule)).collect();
    let new: HashMap<Target, &Planned> = after.iter().map(|rule| (rule.target, rule)).collect();
    let gone = before.iter().filter(|rule| !new.contains_key(&rule.target));
    let gone = gone.map(|rule| format!("- {} {}", rule.target, in_words(rule)));
    let differs = after.iter().filter_map(|rule| match old.get(&rule.target) {
        None => Some(format!("+ {} {}", rule.target, in_words(rule))),
        Some(old) if *old == rule => None,
        Some(old) => Some(format!("{}: {} → {}", rule.target, in_words(old), in_words(rule))),
    });
    gone.chain(differs).collect()
}

fn in_words(rule: &Planned) -> String {
    let what = if rule.spec.policy == Policy::DENIED { "deny".to_owned() } else { write::limit(&rule.spec) };
    let until = rule.until.and_then(|until| Timestamp::try_from(until).ok()).map(|until| format!(" until {until}"));
    let comment = rule.comment.as_ref().and_then(|comment| comment.get()).map(|text| format!(" ({})", escaped(text)));
    format!("{what}{}{}", until.unwrap_or_default(), comment.unwrap_or_default())
}

fn few(changes: &[String]) -> String {
    let shown = changes.get(..SHOWN).unwrap_or(changes).join(", ");
    match changes.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_that_differs_is_named_with_what_it_was() {
        let deny = |source: &str| format!("[[rule]]\nsource = \"{source}\"\npolicy = \"deny\"\n");
        let limit = |rate: &str| format!("[[rule]]\nsource = \"192.0.2.2\"\npackets = \"{rate}\"\n");
        let rules = |text: &str| shared::read(text).unwrap();
        let before = rules(&(deny("192.0.2.1") + &limit("10/s") + &deny("192.0.2.4")));
        let comment = deny("192.0.2.4") + "comment = \"\u{202e}scans\"\n";
        let after = rules(&(limit("20/s") + &deny("192.0.2.3") + &comment));
        let found = changes(&before, &after);
        assert_eq!(
            found,
            [
                "- 192.0.2.1 deny",
                "192.0.2.2: 10/s per source, burst 10 → 20/s per source, burst 20",
                "+ 192.0.2.3 deny",
                "192.0.2.4: deny → deny (\\u{202e}scans)",
            ]
        );
        assert!(changes(&after, &after).is_empty());
        assert_eq!(few(&found), format!("{} and 1 more", found[..3].join(", ")));
    }

    #[test]
    fn changes_of_a_version_are_known_only_beside_the_one_before() {
        let deny = |sources: &[&str]| -> String {
            sources.iter().map(|source| format!("[[rule]]\nsource = \"{source}\"\npolicy = \"deny\"\n")).collect()
        };
        let logged = |version, text| {
            let [who, why] = ["root", "test"].map(str::to_owned);
            Logged { version, at_milliseconds: 0, who, why, text }
        };
        let versions = [
            logged(6, Some(deny(&["192.0.2.1"]))),
            logged(5, Some(deny(&["192.0.2.1"]))),
            // Version 4 is lost.
            logged(3, Some(deny(&["192.0.2.1", "192.0.2.2"]))),
            logged(2, None),
            logged(1, Some(deny(&["192.0.2.3"]))),
        ];
        let changes: Vec<_> = rows(&versions).into_iter().map(|row| row.changes).collect();
        let first = Some(vec!["+ 192.0.2.3 deny".to_owned()]);
        assert_eq!(changes, [Some(Vec::new()), None, None, None, first]);
    }
}
