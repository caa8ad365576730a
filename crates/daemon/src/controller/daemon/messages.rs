//! Messages of the daemon about its file.

use ratelimit_base::notify::journal::Level;
use ratelimit_dataplane::{Error, debts::restore::Restored, program::values::Difference, sys::joined_packets};

use crate::{
    config::{PlannedList, daemon::fleet::Fleet},
    controller::{
        change::{
            applied::{Applied, Named},
            left::PartlyUndone,
            stacked::LeftOff,
        },
        socket::request::{RemoteList, UnusableList},
    },
};

/// The number of rules that a message names. Further ones are counted.
const SHOWN: usize = 20;

/// The number of skipped lines that a message names.
const SKIPPED_SHOWN: usize = 5;

/// Returns why a reload failed: as the answer to a request, and as the status for the service manager.
pub(super) fn failure(error: &anyhow::Error) -> (String, String) {
    if let Some(Error::Unfinished { cause }) = error.downcast_ref() {
        let text = format!(
            "only the program and the settings of the file are in force ({cause}): run `ratelimit reload` to continue"
        );
        return (text.clone(), text);
    }
    if error.is::<PartlyUndone>() {
        return (error.to_string(), error.to_string());
    }
    (format!("nothing was changed: {error:#}"), format!("the previous rules stay in force: {error:#}"))
}

/// Returns the result of applying a file, in words.
pub(super) fn text(applied: &Applied) -> String {
    let Applied { set, deleted, unchanged, .. } = applied;
    let mut parts = vec![format!("rules: {set} set, {deleted} deleted, {unchanged} unchanged")];
    parts.extend(few("added", &applied.added));
    parts.extend(few("deleted", &applied.named_deleted));
    parts.extend(names("replaced", applied.replaced.iter().map(|rule| format!("{} (was {})", rule.rule, rule.before))));
    parts.extend(names("allow removed from", applied.removed_allows.iter().cloned()));
    if !applied.lists.is_empty() {
        parts.push(format!("lists changed: {}", applied.lists.join(", ")));
    }
    parts.extend(applied.unusable_lists.iter().map(UnusableList::to_string));
    parts.extend(applied.spared.iter().cloned());
    parts.extend(applied.unapplied.iter().cloned());
    parts.extend(applied.outranked.iter().cloned());
    parts.extend(applied.settings.iter().map(Difference::to_string));
    if !applied.attached.is_empty() {
        parts.push(format!("attached to {}", applied.attached.join(", ")));
        parts.extend(joined_packets::notices(&applied.attached));
    }
    if !applied.detached.is_empty() {
        parts.push(format!("detached from {}", applied.detached.join(", ")));
    }
    parts.extend(applied.left_off.iter().map(LeftOff::text));
    if !applied.awaited.is_empty() {
        parts.push(format!("waiting until these interfaces appear: {}", applied.awaited.join(", ")));
    }
    parts.extend(applied.fleet.clone());
    parts.extend(applied.allowed_ssh.iter().map(|peer| allowed_ssh(peer)));
    if let Some(reason) = &applied.not_detached {
        parts.push(format!(
            "an interface that the file no longer lists could not be detached, the next reload tries again: {reason}"
        ));
    }
    parts.extend(applied.restored.as_ref().map(|restored| match restored {
        Ok(Restored { debts, bans, learned, left_out, .. }) => {
            let learned = if *learned { ", the learned rate of unknown sources" } else { "" };
            let rest = if *left_out == 0 { String::new() } else { format!(", left out: {left_out}") };
            format!("restored debts: {debts}, bans: {bans}{learned}{rest}")
        }
        Err(error) => format!("the saved debts and bans could not be restored: {error}"),
    }));
    if let Some(Ok(Restored { refused, reason: Some(reason), .. })) = &applied.restored {
        parts.push(format!("refused bans: {refused}: {reason}"));
    }
    for (rules, by) in [
        (&applied.overruled, "replaced by command"),
        (&applied.covered, "below temporary rules"),
        (&applied.allowed_instead, "replaced by the allow of an SSH session"),
    ] {
        parts.extend(names(&format!("rules of the file {by}:"), rules.iter().cloned()));
    }
    parts.extend(applied.changeable.iter().cloned());
    parts.join("; ")
}

/// Returns how the fleet of the file has changed. None if it has not.
pub(super) fn fleet_change(before: Option<&Fleet>, now: Option<&Fleet>) -> Option<String> {
    match (before, now) {
        (None, None) => None,
        (None, Some(now)) => Some(format!("fleet joined: {}", now.engine_text())),
        (Some(before), None) => Some(format!("fleet left: {}", before.engine_text())),
        (Some(before), Some(now)) => {
            let keys = before.differences(now);
            (!keys.is_empty()).then(|| format!("fleet changed: {}", keys.join(", ")))
        }
    }
}

/// Returns that the lists on servers are fetched now, and how old their copies are. None without any.
pub(super) fn fetched_now(lists: &[RemoteList]) -> Option<String> {
    let lists = lists.iter().map(|list| format!("{} (last: {})", list.name, list.age()));
    names("; lists that are fetched now:", lists)
}

/// Returns the lines of a list's file that cannot be used. None without any.
pub(super) fn skipped_lines(list: &PlannedList) -> Option<String> {
    let bad = &list.content.as_ref().ok()?.bad;
    let what = format!("list {}: lines of {} that are skipped:", list.name, list.file.display());
    let lines = bad.iter().map(|bad| format!("line {}: {}", bad.line, bad.why));
    first(&what, lines, SKIPPED_SHOWN, "; ", "`ratelimit check`")
}

/// Returns the first names, and how many more there are.
fn names(what: &str, all: impl ExactSizeIterator<Item = String>) -> Option<String> {
    first(what, all, SHOWN, ", ", "`ratelimit reload --json`")
}

/// Returns the first rules, and how many more there are. None without any.
fn few(what: &str, Named { first, more }: &Named) -> Option<String> {
    let more = if *more == 0 { String::new() } else { format!(" and {more} more") };
    (!first.is_empty()).then(|| format!("{what} {}{more}", first.join(", ")))
}

/// Returns the first `most` parts, and how many more there are. `command` names those.
fn first(
    what: &str,
    all: impl ExactSizeIterator<Item = String>,
    most: usize,
    separator: &str,
    command: &str,
) -> Option<String> {
    let more = match all.len().checked_sub(most) {
        None | Some(0) => String::new(),
        Some(more) => format!(" and {more} more, which {command} names"),
    };
    let shown: Vec<String> = all.take(most).collect();
    (!shown.is_empty()).then(|| format!("{what} {}{more}", shown.join(separator)))
}

/// Returns that the address of an SSH session was allowed.
pub(super) fn allowed_ssh(peer: &str) -> String {
    format!("{peer} allowed, because it is the address of an SSH session")
}

/// Returns the priority of the message: a warning if something differs from the file, or if an omitted setting changed.
pub(super) fn level(applied: &Applied) -> Level {
    let has_all = applied.awaited.is_empty() && applied.left_off.is_empty();
    let is_whole =
        has_all && applied.unusable_lists.is_empty() && applied.spared.is_empty() && applied.changeable.is_empty();
    let all_act = [&applied.overruled, &applied.covered, &applied.allowed_instead].iter().all(|rules| rules.is_empty());
    let is_restored = !matches!(&applied.restored, Some(Err(_) | Ok(Restored { reason: Some(_), .. })));
    let is_complete = is_whole && all_act && is_restored && applied.not_detached.is_none();
    // A command can have set such a value on purpose.
    let is_expected = is_complete && applied.settings.iter().all(|difference| !difference.is_omitted);
    if is_expected { Level::Info } else { Level::Warning }
}
