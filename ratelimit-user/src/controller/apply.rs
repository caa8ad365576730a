//! Brings an instance to what a file says: to all of it, or it stays as it was.

use std::{path::Path, time::SystemTime};

use ratelimit_common::rule::CONFIG;
use serde::Serialize;

use super::difference::difference;
use crate::{
    config::{Config, Interface},
    dataplane::{
        Error, Instance, attachment::Added, capacities, costs, interface, object::Wanted, rules, target::Target,
    },
    prefix::Prefix,
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
    /// The address that an SSH session comes from, which was allowed.
    pub allowed_ssh: Option<String>,
}

/// Does what the file says. A process that does so for the first time brings its own program. By `force` it may shut out the SSH session that this
/// runs in.
///
/// # Errors
///
/// Whatever stands in the way; nothing has changed then.
pub fn apply(pins: &Path, config: &Config, is_first: bool, force: bool) -> Result<Applied, Error> {
    let names: Vec<String> = config.interfaces.iter().map(|interface| interface.name.clone()).collect();
    // Before anything is made.
    interface::find(&names)?;
    let (mut instance, is_new) = Instance::open_or_create(pins, &config.wanted)?;
    let mut done = Done::default();
    let outcome = bring(&mut instance, config, How { is_new, is_first, force }, &mut done);
    match outcome {
        Ok(()) => Ok(done.applied),
        Err(error) => {
            done.undo(instance, is_new);
            Err(error)
        }
    }
}

/// What has been done so far, to be taken back if a later step fails.
#[derive(Default)]
struct Done {
    applied: Applied,
    settings: Option<Wanted>,
    costs: Option<Vec<costs::Cost>>,
    capacities: Vec<(u32, u64)>,
    added: Vec<Added>,
    allowed_ssh: Option<Prefix>,
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
) -> Result<(), Error> {
    let running = instance.settings()?;
    let needs_program = is_first || config.wanted.or(running) != running;
    if !is_new && needs_program {
        instance.upgrade(&config.wanted)?;
        done.settings = Some(Wanted::of(&running));
    }
    if !force && instance.attachments.list()?.is_empty() && !config.interfaces.is_empty() {
        done.allowed_ssh = ssh::allow_peer(instance, "--force")?;
        done.applied.allowed_ssh = done.allowed_ssh.map(|peer| peer.to_string());
    }
    for wanted in &config.interfaces {
        set_capacity(instance, wanted, done)?;
    }
    done.costs = Some(costs::list(&instance.tables)?);
    instance.set_costs_of(CONFIG, &config.costs)?;
    // Rules stand before a new interface is attached, and an interface that fails takes no rule with it.
    if !is_new {
        attach(instance, config, done)?;
    }
    let difference = difference(&rules::list(&instance.tables)?, &config.rules, SystemTime::now());
    let guard = ssh::Guard::of(instance, force)?;
    instance.change(&difference.change, &mut |_| {}, &|tables| guard.check(tables))?;
    done.applied.set = difference.change.wishes.len();
    done.applied.deleted = difference.change.deleted.len();
    done.applied.unchanged = difference.unchanged;
    done.applied.overruled = difference.overruled.iter().map(Target::to_string).collect();
    if is_new { attach(instance, config, done) } else { Ok(()) }
}

fn set_capacity(instance: &mut Instance, wanted: &Interface, done: &mut Done) -> Result<(), Error> {
    let Some(capacity) = wanted.capacity else { return Ok(()) };
    for interface in interface::find(std::slice::from_ref(&wanted.name))? {
        let before = capacities::of(&instance.tables, interface.index)?.unwrap_or(0);
        if before != capacity {
            capacities::set(&mut instance.tables, interface.index, capacity)?;
            done.capacities.push((interface.index, before));
        }
    }
    Ok(())
}

/// Attaches to each interface that has not our program already.
fn attach(instance: &mut Instance, config: &Config, done: &mut Done) -> Result<(), Error> {
    let mut program = instance.program()?;
    let ours: Vec<u32> = instance.attachments.list()?.iter().map(|attachment| attachment.program_id).collect();
    for wanted in &config.interfaces {
        for interface in interface::find(std::slice::from_ref(&wanted.name))? {
            if interface.program.is_none_or(|running| !ours.contains(&running.id)) {
                done.applied.attached.push(interface.name.clone());
                done.added.push(instance.attachments.attach(&mut program, interface, wanted.mode, false)?);
            }
        }
    }
    Ok(())
}

impl Done {
    /// Takes back what was done, as far as it goes: what the operator must hear of is why it failed.
    fn undo(self, mut instance: Instance, is_new: bool) {
        for added in self.added {
            let _ = instance.attachments.take_back(added);
        }
        if is_new {
            let _ = instance.remove();
            return;
        }
        if let Some(costs) = self.costs {
            let _ = instance.restore_costs(&costs);
        }
        for (index, before) in self.capacities {
            let _ = capacities::set(&mut instance.tables, index, before);
        }
        if let Some(peer) = self.allowed_ssh {
            let _ = instance.delete_rule(Target::prefix(peer));
        }
        if let Some(settings) = self.settings {
            let _ = instance.upgrade(&settings);
        }
    }
}
