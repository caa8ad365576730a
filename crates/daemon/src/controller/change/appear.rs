//! Attaches to an interface of the file that appears while the daemon runs.

use std::path::Path;

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::rules::rule::CONFIG;
use ratelimit_dataplane::{
    Error, Instance,
    attach::attachment::Mode,
    instance::daemon_lock::DaemonLock,
    sys::interface::{self, is_there},
};

use super::{
    apply::{forget_capacities, record, set_capacities},
    interfaces::{self, RequestedInterface},
    left,
    undo::Done,
};
use crate::{
    config,
    ssh::{self, ProtectedSessions},
};

/// An interface of the file that has appeared.
#[derive(Debug)]
pub enum Appeared {
    /// It was attached. These addresses of SSH sessions were allowed.
    Attached(Vec<String>),
    /// It carries the program already.
    Already,
    /// It is gone again, or a command has detached it.
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
        Err(Error::NotAttached) => return Ok(Appeared::No),
        instance => instance?,
    };
    let attachments = instance.attachments.list()?;
    let is_attached = attachments.iter().any(|attachment| attachment.is_on(&wanted.name));
    let is_first = attachments.is_empty();
    let lost = attachments.into_iter().find(|attachment| attachment.has_lost(&wanted.name)).map(|lost| lost.recorded);
    if !is_attached && lost.is_none() && !is_awaited {
        return Ok(Appeared::No);
    }
    instance.lock_for_daemon(daemon_lock)?;
    if is_attached || !is_there(&interface::list()?, &wanted.name) {
        record(&instance, listed);
        return Ok(if is_attached { Appeared::Already } else { Appeared::No });
    }
    let (origin, is_generic) = lost.as_ref().map_or((CONFIG, false), |lost| (lost.origin, lost.is_generic));
    let shadow = lost.map_or(wanted.shadow.unwrap_or(false), |lost| lost.is_shadow);
    // The interface has a new index.
    forget_capacities(&mut instance)?;
    let mut done = Done::default();
    let mode = wanted.mode.or(is_generic.then_some(Mode::Generic));
    let requested = vec![RequestedInterface { name: wanted.name.clone(), mode, shadow }];
    let mut attach = || {
        if is_first {
            ssh::allow_each(&mut instance, protected, &|_| false, &mut done.allowed_ssh)?;
        }
        set_capacities(&mut instance, std::slice::from_ref(wanted), &mut done)?;
        interfaces::attach(&mut instance, &requested, false, origin, &mut done)
    };
    match attach() {
        Ok(_) => instance.forget_interfaces(),
        Err(error) => return Err(left::with_left(error, &done.undo(instance, false))),
    }
    record(&instance, listed);
    Ok(Appeared::Attached(done.allowed_ssh.iter().map(Prefix::to_string).collect()))
}
