//! What has been done to an instance so far, and how to take it back: at once where a later step fails, or later where nobody confirms it.

use anyhow::Context as _;
use ratelimit_common::rules::rule::SSH;

use crate::{
    dataplane::{
        Error, Instance,
        attach::undo::Added,
        instance::swap::replace::Running,
        program::loader::Wanted,
        rules::{
            capacities, costs,
            list::{self, Listed},
            spec::Terms,
            target::Target,
        },
        sys::interface::Interface,
    },
    prefix::Prefix,
};

/// What has been done.
#[derive(Default)]
pub(crate) struct Done {
    /// Interfaces that were attached to.
    pub(crate) added: Vec<Added>,
    /// Addresses that SSH sessions come from, which were allowed.
    pub(crate) allowed_ssh: Vec<Prefix>,
    /// The default limit that was set, with the one before it.
    pub(crate) default: Option<(Terms, Option<Listed>)>,
    capacities: Vec<Capacity>,
    costs: Option<Vec<costs::Cost>>,
    /// The program that gave way, and what was asked of the one that runs now, as far as that could be read.
    program: Option<(Running, Option<Wanted>)>,
}

/// An interface's capacity in packets per second, 0 for none.
struct Capacity {
    name: String,
    index: u32,
    before: u64,
    after: u64,
}

impl Done {
    /// Gives an interface a capacity in packets per second; 0 takes it away.
    ///
    /// # Errors
    ///
    /// Those of [`capacities::set`].
    pub(crate) fn set_capacity(
        &mut self,
        instance: &mut Instance,
        interface: &Interface,
        after: u64,
    ) -> Result<(), Error> {
        let index = interface.index;
        let before = capacities::of(&instance.tables, index)?.unwrap_or(0);
        if before != after {
            capacities::set(&mut instance.tables, index, after)?;
            self.capacities.push(Capacity { name: interface.name.clone(), index, before, after });
        }
        Ok(())
    }

    /// Makes these the costs that this origin has set.
    ///
    /// # Errors
    ///
    /// Those of [`Instance::set_costs_of`].
    pub(crate) fn set_costs(
        &mut self,
        instance: &mut Instance,
        origin: u8,
        wanted: &[costs::Wish],
    ) -> Result<(), Error> {
        self.costs = Some(costs::list(&instance.tables)?);
        instance.set_costs_of(origin, wanted)
    }

    /// Puts this build's program in the place of the running one.
    ///
    /// # Errors
    ///
    /// Those of [`Instance::upgrade`].
    pub(crate) fn upgrade(&mut self, instance: &mut Instance, wanted: &Wanted) -> Result<(), Error> {
        let before = instance.running()?;
        instance.upgrade(wanted)?;
        self.note_program(before, instance);
        Ok(())
    }

    /// Has the program count as these interfaces need it, which are about to be attached.
    ///
    /// # Errors
    ///
    /// Those of [`Instance::expect_interfaces`].
    pub(crate) fn expect_interfaces(
        &mut self,
        instance: &mut Instance,
        coming: impl IntoIterator<Item = u32>,
    ) -> Result<(), Error> {
        let (before, features) = (instance.running()?, instance.settings()?.features());
        instance.expect_interfaces(coming)?;
        if instance.settings().is_ok_and(|now| now.features() == features) {
            return Ok(());
        }
        self.note_program(before, instance);
        Ok(())
    }

    /// Notes that another program has taken the place of this one, which is gone back to if it was the first.
    fn note_program(&mut self, before: Running, instance: &Instance) {
        let first = self.program.take().map_or(before, |(first, _)| first);
        self.program = Some((first, instance.settings().ok().map(|now| Wanted::of(&now))));
    }

    /// Sets the default limit.
    ///
    /// # Errors
    ///
    /// Those of [`Instance::set_rule`].
    pub(crate) fn set_default(&mut self, instance: &mut Instance, terms: &Terms, origin: u8) -> Result<(), Error> {
        let before = list::get(&instance.tables, Target::DEFAULT)?;
        instance.set_rule(Target::DEFAULT, terms, None, origin)?;
        self.default = Some((terms.clone(), before));
        Ok(())
    }

    /// Takes back what was done, as far as it goes, and says what failed. What others have changed since stays, unless the whole instance was new,
    /// which goes with all that is in it.
    pub(crate) fn take_back(mut self, mut instance: Instance, is_new: bool) -> Vec<anyhow::Error> {
        let mut failures = self.take_back_interfaces();
        if is_new {
            failures.extend(instance.remove().context("the instance").err());
            return failures;
        }
        instance.settle_interfaces();
        for capacity in &self.capacities {
            let what = || format!("the capacity of {}", capacity.name);
            failures.extend(capacity.restore(&mut instance).with_context(what).err());
        }
        if let Some(costs) = self.costs {
            failures.extend(instance.restore_costs(&costs).context("costs").err());
        }
        if let Some((after, before)) = self.default {
            failures.extend(restore_default(&mut instance, &after, before).context("the default limit").err());
        }
        for peer in self.allowed_ssh {
            let what = || format!("the rule that allows {peer}");
            failures.extend(forbid(&mut instance, Target::prefix(peer)).with_context(what).err());
        }
        // Rules first: what they have asked of the program is not asked any more.
        if let Some((before, after)) = self.program {
            failures
                .extend(restore_program(&mut instance, before, after).context("the program and its settings").err());
        }
        instance.forget_interfaces();
        failures
    }

    /// Only that: interfaces are as they were before. It needs nothing of the instance but its links, not even its lock, and can be done twice:
    /// the second time goes on with what has failed.
    pub(crate) fn take_back_interfaces(&mut self) -> Vec<anyhow::Error> {
        let take_back = |added: &mut Added| added.take_back().with_context(|| added.name().to_owned()).err();
        self.added.iter_mut().filter_map(take_back).collect()
    }
}

/// Something has failed, and not all that had been done before could be taken back.
#[derive(Debug, thiserror::Error)]
#[error("{cause:#}; not all was taken back: {left}")]
pub(crate) struct Partly {
    cause: anyhow::Error,
    left: String,
}

/// The error, with what is left of what was done before it.
pub(crate) fn with_left(cause: impl Into<anyhow::Error>, left: &[anyhow::Error]) -> anyhow::Error {
    let cause = cause.into();
    if left.is_empty() { cause } else { Partly { cause, left: in_words(left) }.into() }
}

/// What could not be taken back, in one line.
pub(crate) fn in_words(failures: &[anyhow::Error]) -> String {
    failures.iter().map(|failure| format!("{failure:#}")).collect::<Vec<_>>().join("; ")
}

impl Capacity {
    fn restore(&self, instance: &mut Instance) -> Result<(), Error> {
        if capacities::of(&instance.tables, self.index)?.unwrap_or(0) != self.after {
            return Ok(());
        }
        capacities::set(&mut instance.tables, self.index, self.before)
    }
}

fn restore_default(instance: &mut Instance, after: &Terms, before: Option<Listed>) -> Result<(), Error> {
    if list::get(&instance.tables, Target::DEFAULT)?.is_none_or(|now| *now.terms != *after) {
        return Ok(());
    }
    match before {
        Some(rule) => instance.set_rule(Target::DEFAULT, &rule.terms, None, rule.origin),
        None => instance.delete_rule(Target::DEFAULT),
    }
}

fn forbid(instance: &mut Instance, peer: Target) -> Result<(), Error> {
    match list::get(&instance.tables, peer)? {
        Some(rule) if rule.origin == SSH => instance.delete_rule(peer),
        _ => Ok(()),
    }
}

fn restore_program(instance: &mut Instance, before: Running, after: Option<Wanted>) -> Result<(), Error> {
    let now = Wanted::of(&instance.settings()?);
    let Some(after) = after.filter(|after| *after != now) else { return instance.go_back(before) };
    // Somebody has asked for other settings since, which stay.
    let back = now.back(&after, &before.wanted());
    if back == now { Ok(()) } else { instance.upgrade(&back) }
}
