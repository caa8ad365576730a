//! Brings an instance to what a file says: to all of it, or it stays as it was.

use std::{path::Path, time::SystemTime};

use ratelimit_common::rules::rule::CONFIG;
use serde::Serialize;

use crate::controller::change::{
    difference::difference,
    interfaces::{self, Wishes},
    undo::{self, Done},
};
pub use crate::ssh::Guarded;
use crate::{
    config::{self, Config},
    dataplane::{
        Error, Instance,
        attach::attachment::Attachment,
        instance::daemon_lock::Claim,
        program::requested::differences,
        rules::{capacities, list, target::Target},
        sys::interface,
    },
    prefix::Prefix,
    ssh,
};

/// What was done.
#[derive(Debug, Default, Serialize)]
pub struct Applied {
    /// Rules that are new, or say something else than before.
    pub set: usize,
    /// Settings of the program that are others than before.
    pub settings: Vec<&'static str>,
    /// Rules that an earlier file has left.
    pub deleted: usize,
    /// Rules that are as they were.
    pub unchanged: usize,
    /// Rules of the file that one set by command takes the place of.
    pub overruled: Vec<String>,
    /// Interfaces that were attached to.
    pub attached: Vec<String>,
    /// Interfaces that an earlier file has left, which were detached from.
    pub detached: Vec<String>,
    /// Why some of those are attached still.
    pub not_detached: Option<String>,
    /// Whether nothing is dropped though the file does not say so: it was told before.
    pub stays_in_shadow: bool,
    /// Addresses that SSH sessions come from, which were allowed.
    pub allowed_ssh: Vec<String>,
}

/// Does what the file says, if this process has the `claim` on the instance, or can get it. A process that does so for the first time brings its own
/// program. The sessions that are `guarded` are allowed where nothing was attached before, and shut out by no rule of the file.
///
/// # Errors
///
/// Whatever stands in the way; nothing has changed then.
pub fn apply(
    pins: &Path,
    config: &Config,
    is_first: bool,
    guarded: &Guarded,
    claim: &mut Option<Claim>,
) -> anyhow::Result<Applied> {
    let names: Vec<String> = config.interfaces.iter().map(|interface| interface.name.clone()).collect();
    // Before anything is made.
    interface::find(&names)?;
    // Before another version's instance is brought to this one.
    Claim::take_early(pins, claim)?;
    let (mut instance, is_new) = Instance::open_or_create(pins, &config.wanted)?;
    let mut done = Done::default();
    // Whoever has no claim changes nothing.
    let claimed = instance.claim(claim);
    let how = How { is_new, is_first, guarded };
    let outcome = claimed.and_then(|()| bring(&mut instance, config, how, &mut done));
    outcome.map_err(|error| undo::with_left(error, &done.take_back(instance, is_new)))
}

/// Attaches once more to an interface of a file that is in force: it was deleted, and has come back. Says whether that is so; a command may have detached
/// it, or all.
///
/// # Errors
///
/// Whatever stands in the way; nothing has changed then.
pub(crate) fn attach_again(pins: &Path, wanted: &config::Interface, claim: &mut Option<Claim>) -> anyhow::Result<bool> {
    let mut instance = match Instance::open(pins) {
        Err(Error::NotAttached) => return Ok(false),
        instance => instance?,
    };
    let is_lost =
        |attachment: &Attachment| attachment.is_gone && attachment.origin == CONFIG && attachment.name == wanted.name;
    if !instance.attachments.list()?.iter().any(is_lost) {
        return Ok(false);
    }
    instance.claim(claim)?;
    // Its index is another one now.
    forget_capacities(&mut instance)?;
    let mut done = Done::default();
    let outcome = set_capacities(&mut instance, std::slice::from_ref(wanted), &mut done).and_then(|()| {
        interfaces::attach(&mut instance, &vec![(wanted.name.clone(), wanted.mode)], false, CONFIG, &mut done)
    });
    match outcome {
        Ok(_) => instance.forget_interfaces(),
        Err(error) => return Err(undo::with_left(error, &done.take_back(instance, false))),
    }
    Ok(true)
}

/// What is to be known besides the file.
#[derive(Clone, Copy)]
struct How<'a> {
    is_new: bool,
    is_first: bool,
    guarded: &'a Guarded,
}

fn bring(
    instance: &mut Instance,
    config: &Config,
    How { is_new, is_first, guarded }: How<'_>,
    done: &mut Done,
) -> Result<Applied, Error> {
    let wishes: Wishes = config.interfaces.iter().map(|wanted| (wanted.name.clone(), wanted.mode)).collect();
    interfaces::check_modes(instance, &wishes)?;
    let mut applied = Applied::default();
    let running = instance.settings()?;
    applied.stays_in_shadow = running.shadow && config.wanted.shadow.is_none();
    if !is_new {
        applied.settings = differences(&running, &config.wanted.or(running));
    }
    let was_in_shadow = running.shadow && !config.wanted.or(running).shadow;
    let needs_program = is_first || config.wanted.or(running) != running;
    if !is_new && needs_program {
        done.upgrade(instance, &config.wanted)?;
    }
    if instance.attachments.list()?.is_empty() && !config.interfaces.is_empty() {
        ssh::allow_each(instance, guarded, &mut done.allowed_ssh)?;
        applied.allowed_ssh = done.allowed_ssh.iter().map(Prefix::to_string).collect();
    }
    set_capacities(instance, &config.interfaces, done)?;
    done.set_costs(instance, CONFIG, &config.costs)?;
    // Rules stand before a new interface is attached, and an interface that fails takes no rule with it.
    if !is_new {
        applied.attached = interfaces::attach(instance, &wishes, false, CONFIG, done)?;
    }
    let difference = difference(&list::list(&instance.tables)?, &config.rules, SystemTime::now());
    applied.set = difference.change.wishes.len();
    applied.deleted = difference.change.deleted.len();
    applied.unchanged = difference.unchanged;
    applied.overruled = difference.overruled.iter().map(Target::to_string).collect();
    let guard = ssh::Guard::over(instance, guarded, was_in_shadow)?;
    instance.change(&difference.change, &mut |_| {}, &|tables| guard.check(tables))?;
    if is_new {
        applied.attached = interfaces::attach(instance, &wishes, false, CONFIG, done)?;
    }
    // It cannot be taken back without a gap, so it comes when nothing else can fail, and is no failure itself.
    let (detached, failure) = interfaces::leave(&instance.attachments, &wishes);
    (applied.detached, applied.not_detached) = (detached, failure.map(|error| error.to_string()));
    // The next attach would do this too, so that a failure is none.
    let _ = forget_capacities(instance);
    instance.forget_interfaces();
    Ok(applied)
}

fn set_capacities(instance: &mut Instance, interfaces: &[config::Interface], done: &mut Done) -> Result<(), Error> {
    for wanted in interfaces {
        let Some(capacity) = wanted.capacity else { continue };
        for interface in interface::find(std::slice::from_ref(&wanted.name))? {
            done.set_capacity(instance, &interface, capacity)?;
        }
    }
    Ok(())
}

fn forget_capacities(instance: &mut Instance) -> Result<(), Error> {
    let attached = instance.attachments.list()?;
    let indices: Vec<u32> = attached.iter().filter_map(|attachment| attachment.index).collect();
    capacities::keep_only(&mut instance.tables, &indices)
}
