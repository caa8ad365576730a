//! Attaches to an interface of the file that appears while the daemon runs.

use std::path::Path;

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::rules::rule::CONFIG;
use ratelimit_dataplane::{
    Error, Instance,
    attach::{
        attachment::{Attachment, Mode},
        refusal,
        twice::Twice,
    },
    instance::daemon_lock::DaemonLock,
    sys::{
        interface::{self, is_there},
        layers::Stack,
    },
};

use super::{
    apply::{forget_capacities, record, set_capacities},
    interfaces::{self, Manner, RequestedInterface},
    left,
    stacked::{self, LeftOff},
    undo::Done,
};
use crate::{
    config,
    ssh::{self, ProtectedSessions},
};

/// An interface of the file that has appeared.
#[derive(Debug)]
pub enum Appeared {
    /// It was attached.
    Attached {
        /// Addresses of SSH sessions that were allowed.
        allowed: Vec<String>,
        /// Interfaces above or below it that were detached.
        made_room: Vec<LeftOff>,
    },
    /// It is not attached because of another interface.
    LeftOff {
        /// Why.
        left_off: LeftOff,
        /// Whether it was attached until now.
        was_attached: bool,
    },
    /// It carries the program already.
    Already,
    /// It carried the program, and does not exist any more.
    Gone,
    /// It never was there, or a command has detached it.
    No,
}

/// Attaches to an interface of the file that has appeared.
///
/// If an interface of this name was deleted or renamed, the new link has the mode and the owner of the lost one, whose
/// pin tells both. Without such a pin, the interface is attached only if the daemon still waits for it: `is_awaited`. So
/// an interface that a command has detached stays detached. The file is not read.
///
/// # Errors
///
/// Fails with the first problem. Nothing has changed then.
pub fn attach_again(
    pins: &Path,
    wanted: &config::Interface,
    listed: &[config::Interface],
    is_awaited: bool,
    protected: &ProtectedSessions,
    daemon_lock: &mut Option<DaemonLock>,
) -> anyhow::Result<Appeared> {
    let mut instance = match Instance::open_in_force(pins) {
        // A daemon of the version in force does it.
        Err(Error::NotAttached(_) | Error::NotInForce) => return Ok(Appeared::No),
        instance => instance?,
    };
    let attachments = instance.attachments.list()?;
    let is_attached = attachments.iter().any(|attachment| attachment.is_on(&wanted.name));
    let is_first = attachments.is_empty();
    let lost =
        attachments.iter().find(|attachment| attachment.has_lost(&wanted.name)).map(|lost| lost.recorded.clone());
    if !is_attached && lost.is_none() && !is_awaited {
        return Ok(Appeared::No);
    }
    instance.lock_for_daemon(daemon_lock)?;
    let all = interface::list()?;
    let present: Vec<_> = listed.iter().filter(|one| is_there(&all, &one.name)).cloned().collect();
    let (_, left_off) = stacked::divide(pins, &present, &attachments, &all);
    let stack = Stack::of(&all);
    if let Some(own) = left_off.iter().find(|left_off| left_off.name == wanted.name) {
        return leave_off(&attachments, own, &left_off, &stack);
    }
    if is_attached || !is_there(&all, &wanted.name) {
        record(&instance, listed);
        return Ok(match (is_attached, lost) {
            (true, _) => Appeared::Already,
            (false, Some(_)) => Appeared::Gone,
            (false, None) => Appeared::No,
        });
    }
    let (origin, is_generic) = lost.as_ref().map_or((CONFIG, false), |lost| (lost.origin, lost.is_generic));
    let shadow = lost.map_or(wanted.shadow.unwrap_or(false), |lost| lost.is_shadow);
    // The interface has a new index.
    forget_capacities(&mut instance)?;
    let mut done = Done::default();
    let makes_room = |other: &Attachment| {
        other.origin == CONFIG
            && left_off.iter().any(|left_off| other.is_on(&left_off.name))
            && Twice::of(&stack, &wanted.name, &other.name).is_some()
    };
    let mode = wanted.mode.or(is_generic.then_some(Mode::Generic));
    // Nothing is detached for one that would be refused.
    if attachments.iter().any(makes_room)
        && let Some(refused) = stack.named(&wanted.name).and_then(|one| refusal::refusal(pins, &all, one, mode))
    {
        return Err(refused.into());
    }
    let requested = vec![RequestedInterface { name: wanted.name.clone(), mode, shadow }];
    let mut attach = || {
        if is_first {
            ssh::allow_each(&mut instance, protected, &|_| false, &mut done.allowed_ssh)?;
        }
        set_capacities(&mut instance, std::slice::from_ref(wanted), &mut done)?;
        interfaces::attach(
            &mut instance,
            &requested,
            Manner { replace: false, origin, makes_room: &makes_room },
            &mut done,
        )
    };
    match attach() {
        Ok(_) => instance.forget_interfaces(),
        Err(error) => return Err(left::with_left(error, &done.undo(instance, false))),
    }
    // Those below it, and those above that were not in the way. One that stays is charged twice until the next change.
    let mut gone: Vec<String> = done.made_room().map(str::to_owned).collect();
    let detached = attachments.iter().filter(|other| makes_room(other) && !gone.contains(&other.name));
    let detached: Vec<String> =
        detached.filter(|other| other.detach().is_ok()).map(|other| other.name.clone()).collect();
    gone.extend(detached);
    record(&instance, listed);
    let made_room = left_off.into_iter().filter(|left_off| gone.contains(&left_off.name)).collect();
    Ok(Appeared::Attached { allowed: done.allowed_ssh.iter().map(Prefix::to_string).collect(), made_room })
}

/// Leaves an interface off. If it is attached, it stays so until the one that is chosen instead of it is.
fn leave_off(
    attachments: &[Attachment],
    own: &LeftOff,
    left_off: &[LeftOff],
    stack: &Stack<'_>,
) -> anyhow::Result<Appeared> {
    let attached = attachments.iter().find(|attachment| attachment.is_on(&own.name) && attachment.origin == CONFIG);
    let stays = |other: &&Attachment| {
        other.mode.is_some() && (other.origin != CONFIG || left_off.iter().all(|left| left.name != other.name))
    };
    let is_twice = attachments.iter().filter(stays).any(|other| Twice::of(stack, &own.name, &other.name).is_some());
    match attached {
        Some(_) if !is_twice => return Ok(Appeared::Already),
        Some(attachment) => attachment.detach()?,
        None => {}
    }
    Ok(Appeared::LeftOff { left_off: own.clone(), was_attached: attached.is_some() })
}
