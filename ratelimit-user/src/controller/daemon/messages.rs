//! What a daemon says of a file that it has read.

use crate::controller::{
    change::{apply::Applied, undo::Partly},
    notify::journal::Level,
};
use crate::dataplane::Error;

/// Why a reload has failed: for whoever has asked for it, and as the status of what is in force.
pub(crate) fn failure(error: &anyhow::Error) -> (String, String) {
    if let Some(Error::Unfinished { cause }) = error.downcast_ref() {
        let text = format!("only program and settings of the file are in force ({cause}): `ratelimit reload` goes on");
        return (text.clone(), text);
    }
    if error.is::<Partly>() {
        return (error.to_string(), error.to_string());
    }
    (format!("nothing was changed: {error:#}"), format!("what was in force stays: {error:#}"))
}

/// What was done, in words.
pub(crate) fn text(applied: &Applied) -> String {
    let Applied { set, deleted, unchanged, .. } = applied;
    let mut parts = vec![format!("rules: {set} set, {deleted} deleted, {unchanged} unchanged")];
    if !applied.settings.is_empty() {
        parts.push(format!("settings changed: {}", applied.settings.join(", ")));
    }
    if !applied.attached.is_empty() {
        parts.push(format!("attached to {}", applied.attached.join(", ")));
    }
    if !applied.detached.is_empty() {
        parts.push(format!("detached from {}", applied.detached.join(", ")));
    }
    for peer in &applied.allowed_ssh {
        parts.push(format!("{peer} allowed, because an SSH session comes from it"));
    }
    if applied.stays_in_shadow {
        parts.push(
            "everything stays in shadow, as it was told before: shadow = false below [settings] ends that".to_owned(),
        );
    }
    if let Some(reason) = &applied.not_detached {
        parts
            .push(format!("what the file names no more was not detached, which the next reload tries again: {reason}"));
    }
    if !applied.overruled.is_empty() {
        parts.push(format!("set otherwise by command: {}", applied.overruled.join(", ")));
    }
    parts.join("; ")
}

/// Whether it is what the file says, or something stands otherwise.
pub(crate) fn level(applied: &Applied) -> Level {
    let is_expected = applied.overruled.is_empty() && applied.not_detached.is_none() && !applied.stays_in_shadow;
    if is_expected { Level::Info } else { Level::Warning }
}
