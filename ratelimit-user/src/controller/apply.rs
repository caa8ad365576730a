//! Brings an instance to what a file says: to all of it, or it stays as it was.

use std::{path::Path, time::SystemTime};

use ratelimit_common::rule::CONFIG;
use serde::Serialize;

use super::{
    difference::difference,
    interfaces::{self, Wishes},
    undo::Done,
};
use crate::{
    config::Config,
    dataplane::{Error, Instance, capacities, claim::Claim, interface, rules, target::Target},
    ssh,
};

/// What was done.
#[derive(Debug, Default, Serialize)]
pub struct Applied {
    /// Rules that are new, or say something else than before.
    pub set: usize,
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
    /// The address that an SSH session comes from, which was allowed.
    pub allowed_ssh: Option<String>,
}

/// Does what the file says, if this process has the `claim` on the instance, or can get it. A process that does so for the first time brings its own
/// program. By `force` it may shut out the SSH session that this runs in.
///
/// # Errors
///
/// Whatever stands in the way; nothing has changed then.
pub fn apply(
    pins: &Path,
    config: &Config,
    is_first: bool,
    force: bool,
    claim: &mut Option<Claim>,
) -> Result<Applied, Error> {
    let names: Vec<String> = config.interfaces.iter().map(|interface| interface.name.clone()).collect();
    // Before anything is made.
    interface::find(&names)?;
    // Before another version's instance is brought to this one.
    Claim::take_early(pins, claim)?;
    let (mut instance, is_new) = Instance::open_or_create(pins, &config.wanted)?;
    let mut done = Done::default();
    // Whoever has no claim changes nothing.
    let claimed = instance.claim(claim);
    let outcome = claimed.and_then(|()| bring(&mut instance, config, How { is_new, is_first, force }, &mut done));
    if outcome.is_err() {
        done.take_back(instance, is_new);
    }
    outcome
}

/// What is to be known besides the file.
#[derive(Clone, Copy)]
struct How {
    is_new: bool,
    is_first: bool,
    force: bool,
}

fn bring(
    instance: &mut Instance,
    config: &Config,
    How { is_new, is_first, force }: How,
    done: &mut Done,
) -> Result<Applied, Error> {
    let wishes: Wishes = config.interfaces.iter().map(|wanted| (wanted.name.clone(), wanted.mode)).collect();
    interfaces::check_modes(instance, &wishes)?;
    let mut applied = Applied::default();
    let running = instance.settings()?;
    let needs_program = is_first || config.wanted.or(running) != running;
    if !is_new && needs_program {
        done.upgrade(instance, &config.wanted)?;
    }
    if !force && instance.attachments.list()?.is_empty() && !config.interfaces.is_empty() {
        done.allowed_ssh = ssh::allow_peer(instance, "--force")?;
        applied.allowed_ssh = done.allowed_ssh.map(|peer| peer.to_string());
    }
    for wanted in &config.interfaces {
        let Some(capacity) = wanted.capacity else { continue };
        for interface in interface::find(std::slice::from_ref(&wanted.name))? {
            done.set_capacity(instance, &interface, capacity)?;
        }
    }
    done.set_costs(instance, CONFIG, &config.costs)?;
    // Rules stand before a new interface is attached, and an interface that fails takes no rule with it.
    if !is_new {
        applied.attached = interfaces::attach(instance, &wishes, false, CONFIG, done)?;
    }
    let difference = difference(&rules::list(&instance.tables)?, &config.rules, SystemTime::now());
    applied.set = difference.change.wishes.len();
    applied.deleted = difference.change.deleted.len();
    applied.unchanged = difference.unchanged;
    applied.overruled = difference.overruled.iter().map(Target::to_string).collect();
    let guard = ssh::Guard::of(instance, force)?;
    instance.change(&difference.change, &mut |_| {}, &|tables| guard.check(tables))?;
    if is_new {
        applied.attached = interfaces::attach(instance, &wishes, false, CONFIG, done)?;
    }
    // It cannot be taken back without a gap, so it comes when nothing else can fail, and is no failure itself.
    match interfaces::leave(&instance.attachments, &wishes) {
        Ok(detached) => applied.detached = detached,
        Err(error) => applied.not_detached = Some(error.to_string()),
    }
    // The next attach would do this too, so that a failure is none.
    let _ = forget_capacities(instance);
    instance.forget_interfaces();
    Ok(applied)
}

fn forget_capacities(instance: &mut Instance) -> Result<(), Error> {
    let attached = instance.attachments.list()?;
    let indices: Vec<u32> = attached.iter().filter_map(|attachment| attachment.index).collect();
    capacities::keep_only(&mut instance.tables, &indices)
}
