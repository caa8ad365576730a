//! Attaches to interfaces, and leaves those that a file has left.

use ratelimit_common::rules::rule::CONFIG;

use crate::controller::change::undo::Done;
use crate::dataplane::{
    Error, Instance,
    attach::attachment::{Attachment, Attachments, How, Mode},
    sys::interface::{self, Attached, Interface},
};

/// Interfaces by name, each with the mode that was asked for; without one, it is native where none runs.
pub(crate) type Wishes = Vec<(String, Option<Mode>)>;

/// Checks that no interface runs in another mode than asked for: the kernel has no way from one to the other without a gap.
///
/// # Errors
///
/// [`Error::OtherMode`] with the first that does.
pub(crate) fn check_modes(instance: &Instance, wishes: &Wishes) -> Result<(), Error> {
    let ours = programs(instance)?;
    for (interface, mode) in find(wishes)? {
        let Some(running) = interface.program.filter(|running| ours.contains(&running.id)) else { continue };
        let is_same = match mode {
            Some(Mode::Native) => running.mode == Attached::Native,
            Some(Mode::Generic) => running.mode == Attached::Generic,
            Some(Mode::Auto) | None => true,
        };
        if !is_same {
            return Err(Error::OtherMode { name: interface.name, running: running.mode.name() });
        }
    }
    Ok(())
}

/// Attaches to each interface that has not our program already, for this origin, and returns the names of those that got it. With `replace`, other programs give way.
///
/// # Errors
///
/// Those of [`check_modes`], [`Instance::expect_interfaces`] and [`Attachments::attach`]; `done` knows of those before.
pub(crate) fn attach(
    instance: &mut Instance,
    wishes: &Wishes,
    replace: bool,
    origin: u8,
    done: &mut Done,
) -> Result<Vec<String>, Error> {
    check_modes(instance, wishes)?;
    // Before the first packet comes in by a second interface. Those that are attached may have another program then.
    let coming: Vec<u32> = find(wishes)?.iter().map(|(interface, _)| interface.index).collect();
    done.expect_interfaces(instance, coming)?;
    let (ours, mut program) = (programs(instance)?, instance.program()?);
    let mut names = Vec::new();
    for (interface, mode) in find(wishes)? {
        if interface.program.is_none_or(|running| !ours.contains(&running.id)) {
            names.push(interface.name.clone());
            let how = How { mode: mode.unwrap_or(Mode::Native), replace, origin };
            done.added.push(instance.attachments.attach(&mut program, interface, how)?);
        }
    }
    Ok(names)
}

/// Detaches from what a file has asked for, and does not any more. Returns the names, and why others are attached still.
pub(crate) fn leave(attachments: &Attachments, wishes: &Wishes) -> (Vec<String>, Option<Error>) {
    let is_left = |attachment: &Attachment| {
        attachment.origin == CONFIG && wishes.iter().all(|(name, _)| *name != attachment.name)
    };
    match attachments.list() {
        Ok(all) => detach_each(all.into_iter().filter(is_left), |left| (left.detach(), left.name)),
        Err(error) => (Vec::new(), Some(error)),
    }
}

/// Each on its own: one that fails keeps no other. Of several failures, the first is told.
fn detach_each<T>(
    all: impl Iterator<Item = T>,
    detach: impl Fn(T) -> (Result<(), Error>, String),
) -> (Vec<String>, Option<Error>) {
    let (mut names, mut failure) = (Vec::new(), None);
    for (outcome, name) in all.map(detach) {
        match outcome {
            Ok(()) => names.push(name),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    (names, failure)
}

/// Ids of our programs that run.
fn programs(instance: &Instance) -> Result<Vec<u32>, Error> {
    Ok(instance.attachments.list()?.iter().map(|attachment| attachment.program_id).collect())
}

fn find(wishes: &Wishes) -> Result<Vec<(Interface, Option<Mode>)>, Error> {
    let names: Vec<String> = wishes.iter().map(|(name, _)| name.clone()).collect();
    // Each once: with the first mode.
    let mode = |interface: &Interface| wishes.iter().find(|(name, _)| *name == interface.name).and_then(|wish| wish.1);
    Ok(interface::find(&names)?
        .into_iter()
        .map(|interface| {
            let mode = mode(&interface);
            (interface, mode)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_detached_is_told_though_others_fail() {
        let detach = |name: &str| {
            let outcome = if name == "wan0" { Err(Error::Netlink("no".to_owned())) } else { Ok(()) };
            (outcome, name.to_owned())
        };
        let (names, failure) = detach_each(["eth0", "wan0", "eth1"].into_iter(), detach);
        assert_eq!(names, ["eth0", "eth1"]);
        assert!(matches!(failure, Some(Error::Netlink(_))));
    }
}
