//! Puts single interfaces in shadow, and ends that. The name of an interface's pin tells which program it gets, also when
//! the programs are replaced.

use ratelimit_common::maps::control::FEATURE_SHADOW_PROGRAMS;

use crate::{
    Error,
    attach::{attachment::Attachment, carried},
    instance::{edit, swap::pinned::Pinned},
};

/// Puts the interfaces that `is_wanted` names in shadow, or ends that. Others stay as they are. Returns the names of those
/// that changed. After a failure, all are as before.
pub(super) fn set(
    pinned: &mut Pinned,
    is_wanted: &dyn Fn(&Attachment) -> bool,
    is_shadow: bool,
) -> Result<Vec<String>, Error> {
    let all = pinned.attachments.list()?;
    let changed: Vec<&Attachment> =
        all.iter().filter(|attachment| attachment.is_shadow() != is_shadow && is_wanted(attachment)).collect();
    if changed.is_empty() {
        // A command that was killed may have left programs that no interface needs.
        edit::spare(pinned, if is_shadow { 0 } else { FEATURE_SHADOW_PROGRAMS });
        return Ok(Vec::new());
    }
    if is_shadow {
        edit::look_at(pinned, FEATURE_SHADOW_PROGRAMS)?;
    }
    let programs = pinned.programs()?;
    let put = |attachment: &Attachment, is_shadow| {
        attachment.record_shadow(is_shadow).and_then(|pin| carried::put_on(&pin, &programs))
    };
    for attachment in &changed {
        let Err(error) = put(attachment, is_shadow) else { continue };
        // The operator must see the failure itself, not one of undoing. The next command finishes that.
        for undone in pinned.attachments.list()?.iter().filter(|one| changed.iter().any(|each| each.is_same(one))) {
            let _ = put(undone, !is_shadow);
        }
        return Err(error);
    }
    edit::spare(pinned, FEATURE_SHADOW_PROGRAMS);
    Ok(changed.into_iter().map(|attachment| attachment.name.clone()).collect())
}

/// Finishes what a killed command has left: names of pins that no program follows yet.
pub(super) fn finish(pinned: &Pinned) -> Result<(), Error> {
    let programs = pinned.programs()?;
    let others = carried::other_shadow(&pinned.attachments, &programs)?;
    others.iter().try_for_each(|pin| carried::put_on(pin, &programs))
}
