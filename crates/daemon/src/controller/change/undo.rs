//! Records the steps that changed an instance, and undoes them if a later step fails, or if an attach is not confirmed.
//!
//! The default limit returns only if it did not change since then. Settings return one by one.

use anyhow::Context as _;
use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::rules::rule::SSH;
use ratelimit_dataplane::{
    Error, Instance,
    attach::{
        attachment::{Attachment, How, Mode},
        undo::AttachUndo,
    },
    instance::swap::replace::Running,
    lists::change::ListChange,
    program::{loader::RequestedSettings, programs::Kind},
    rules::{
        batch::Change,
        capacities, costs,
        list::{self, Listed},
        spec::RuleSpec,
        target::Target,
    },
    sys::{interface::Interface, layers},
    tables::open::Tables,
};

/// The steps so far.
#[derive(Default)]
pub struct Done {
    /// Interfaces that were attached.
    pub added: Vec<AttachUndo>,
    /// Addresses of SSH sessions that were allowed.
    pub allowed_ssh: Vec<Prefix>,
    /// The default limit that was set, and the previous one.
    pub default: Option<(RuleSpec, Option<Listed>)>,
    capacities: Vec<Capacity>,
    costs: Option<Vec<costs::Cost>>,
    /// The change that undoes the rules *allow* that came before lists.
    allows: Option<Change>,
    /// The change that puts the previous lists back.
    lists: Option<ListChange>,
    /// Interfaces that were detached, because others below them were to be attached.
    made_room: Vec<MadeRoom>,
    /// Interfaces that were put in shadow, or whose shadow has ended, by name.
    shadows: Vec<(String, bool)>,
    /// The program that was replaced, and the settings of the one that replaced it, if they could be read.
    program: Option<(Running, Option<RequestedSettings>)>,
}

/// An interface's capacity in packets per second, 0 for none.
struct Capacity {
    name: String,
    index: u32,
    before: u64,
    after: u64,
}

/// An interface that was detached, and how it was attached.
struct MadeRoom {
    interface: Interface,
    how: How,
}

impl Done {
    /// Detaches those interfaces above one that make room for it. The kernel refuses a program below another one. A bond in
    /// native mode puts its program on its members, so it refuses one of theirs.
    ///
    /// # Errors
    ///
    /// Fails like [`Attachment::detach`].
    pub fn make_room(
        &mut self,
        instance: &Instance,
        all: &[Interface],
        lower: &Interface,
        makes_room: &dyn Fn(&Attachment) -> bool,
    ) -> Result<(), Error> {
        let members = all.iter().filter(|one| layers::is_bond(lower) && one.controller == Some(lower.index));
        let others: Vec<_> = layers::directly_above(all, lower).chain(members).collect();
        let attached = if others.is_empty() { Vec::new() } else { instance.attachments.list()? };
        for other in others {
            let in_the_way = attached.iter().find(|attachment| attachment.is_on(&other.name) && makes_room(attachment));
            let Some(attachment) = in_the_way else { continue };
            attachment.detach()?;
            let mode = if attachment.recorded.is_generic { Mode::Generic } else { Mode::Native };
            let how = How { mode, replace: false, origin: attachment.origin, shadow: attachment.is_shadow() };
            self.made_room.push(MadeRoom { interface: Interface { program: None, ..other.clone() }, how });
        }
        Ok(())
    }

    /// Returns the names of interfaces that were detached for others.
    pub fn made_room(&self) -> impl Iterator<Item = &str> {
        self.made_room.iter().map(|one| one.interface.name.as_str())
    }

    /// Sets the capacity of an interface in packets per second, and returns the previous one. 0 is none.
    ///
    /// # Errors
    ///
    /// Fails like [`capacities::set`].
    pub fn set_capacity(&mut self, instance: &mut Instance, interface: &Interface, after: u64) -> Result<u64, Error> {
        let index = interface.index;
        let before = capacities::of(&instance.tables, index)?.unwrap_or(0);
        if before != after {
            capacities::set(&mut instance.tables, index, after)?;
            self.capacities.push(Capacity { name: interface.name.clone(), index, before, after });
        }
        Ok(before)
    }

    /// Replaces the costs of an origin.
    ///
    /// # Errors
    ///
    /// Fails like [`Instance::set_costs_of`].
    pub fn set_costs(
        &mut self,
        instance: &mut Instance,
        origin: u8,
        requested: &[costs::RequestedCost],
    ) -> Result<(), Error> {
        self.costs = Some(costs::list(&instance.tables)?);
        instance.set_costs_of(origin, requested)
    }

    /// Writes rules *allow*, and returns the rules that they replace. `back` undoes that. Without space for them, they come
    /// with the rest of the file, which may delete other rules.
    ///
    /// # Errors
    ///
    /// Fails like [`Instance::change`].
    pub fn allow(&mut self, instance: &mut Instance, change: &Change, back: Change) -> Result<Vec<Listed>, Error> {
        match instance.change(change, &mut |_| {}, &|_| Ok(())) {
            Err(Error::TooManyRules { .. } | Error::TooManyComments(_)) => Ok(Vec::new()),
            outcome => {
                self.allows = Some(back);
                Ok(outcome?.replaced)
            }
        }
    }

    /// Changes lists. `back` undoes that.
    ///
    /// # Errors
    ///
    /// Fails like [`Instance::change_lists`].
    pub fn change_lists(
        &mut self,
        instance: &mut Instance,
        change: &ListChange,
        back: ListChange,
        check: &dyn Fn(&Tables) -> Result<(), Error>,
    ) -> Result<(), Error> {
        instance.change_lists(change, check)?;
        self.lists = Some(back);
        Ok(())
    }

    /// Replaces the running program by the one of this version.
    ///
    /// # Errors
    ///
    /// Fails like [`Instance::upgrade`].
    pub fn upgrade(&mut self, instance: &mut Instance, requested: &RequestedSettings) -> Result<(), Error> {
        let before = instance.running()?;
        instance.upgrade(requested)?;
        self.record_program(before, instance);
        Ok(())
    }

    /// Prepares the program to count packets of these further interfaces.
    ///
    /// # Errors
    ///
    /// Fails like [`Instance::expect_interfaces`].
    pub fn expect_interfaces(
        &mut self,
        instance: &mut Instance,
        coming: &[Interface],
        with_shadow: bool,
    ) -> Result<(), Error> {
        let (before, features) = (instance.running()?, instance.settings()?.features());
        instance.expect_interfaces(coming, with_shadow)?;
        if instance.settings().is_ok_and(|now| now.features() == features) {
            return Ok(());
        }
        self.record_program(before, instance);
        Ok(())
    }

    /// Puts attached interfaces in shadow, or ends that. Returns the names of those that changed.
    ///
    /// # Errors
    ///
    /// Fails like [`Instance::set_shadow`].
    pub fn set_shadow(
        &mut self,
        instance: &mut Instance,
        is_wanted: &dyn Fn(&Attachment) -> bool,
        is_shadow: bool,
    ) -> Result<Vec<String>, Error> {
        let changed = instance.set_shadow(is_wanted, is_shadow)?;
        self.shadows.extend(changed.iter().map(|name| (name.clone(), is_shadow)));
        Ok(changed)
    }

    /// Records that the program `before` was replaced. Undoing returns to the first one.
    fn record_program(&mut self, before: Running, instance: &Instance) {
        let first = self.program.take().map_or(before, |(first, _)| first);
        self.program = Some((first, instance.settings().ok().map(|now| RequestedSettings::of(&now))));
    }

    /// Sets the default limit.
    ///
    /// # Errors
    ///
    /// Fails like [`Instance::change`].
    pub fn set_default(
        &mut self,
        instance: &mut Instance,
        spec: &RuleSpec,
        origin: u8,
        check: &dyn Fn(&Tables) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let before = list::get(&instance.tables, Target::DEFAULT)?;
        // The default keeps its comment, as at `limit set`.
        let comment = before.as_ref().and_then(|rule| rule.comment.as_deref());
        let change = Change::set(Target::DEFAULT, spec, None, origin).with_comment(comment);
        instance.change(&change, &mut |_| {}, check)?;
        self.default = Some((spec.clone(), before));
        Ok(())
    }

    /// Undoes the steps, and returns what failed. Later changes by other commands stay. But a new instance is removed
    /// with everything in it.
    pub fn undo(mut self, mut instance: Instance, is_new: bool) -> Vec<anyhow::Error> {
        let mut failures = self.undo_interfaces();
        if is_new {
            failures.extend(instance.remove().context("the instance").err());
            return failures;
        }
        for one in self.made_room {
            let name = one.interface.name.clone();
            failures.extend(one.take_back(&instance).context(name).err());
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
            failures.extend(remove_ssh_rule(&mut instance, Target::prefix(peer)).with_context(what).err());
        }
        if let Some(lists) = &self.lists {
            failures.extend(instance.change_lists(lists, &|_| Ok(())).context("lists").err());
        }
        if let Some(allows) = &self.allows {
            failures.extend(instance.change(allows, &mut |_| {}, &|_| Ok(())).context("rules").err());
        }
        for (name, is_shadow) in self.shadows.into_iter().rev() {
            let back = instance.set_shadow(&|attachment| attachment.is_on(&name), !is_shadow).map(drop);
            failures.extend(back.with_context(|| format!("shadow of {name}")).err());
        }
        // Rules come first, because they can need features of the program.
        if let Some((before, after)) = self.program {
            failures
                .extend(restore_program(&mut instance, before, after).context("the program and its settings").err());
        }
        instance.forget_interfaces();
        failures
    }

    /// Undoes only the interfaces. This needs the links, but no lock. A second call continues with the interfaces that
    /// failed.
    pub fn undo_interfaces(&mut self) -> Vec<anyhow::Error> {
        let undo = |added: &mut AttachUndo| added.take_back().with_context(|| added.name().to_owned()).err();
        self.added.iter_mut().filter_map(undo).collect()
    }
}

impl MadeRoom {
    /// Attaches the interface again.
    fn take_back(self, instance: &Instance) -> Result<(), Error> {
        let kind = Kind { first: self.interface.first_header()?, is_shadow: self.how.shadow };
        let programs = instance.programs()?;
        instance.attachments.attach(programs.of(kind)?, self.interface, self.how).map(drop)
    }
}

impl Capacity {
    fn restore(&self, instance: &mut Instance) -> Result<(), Error> {
        if capacities::of(&instance.tables, self.index)?.unwrap_or(0) != self.after {
            return Ok(());
        }
        capacities::set(&mut instance.tables, self.index, self.before)
    }
}

fn set_default(instance: &mut Instance, spec: &RuleSpec, origin: u8, comment: Option<&str>) -> Result<(), Error> {
    let change = Change::set(Target::DEFAULT, spec, None, origin).with_comment(comment);
    instance.change(&change, &mut |_| {}, &|_| Ok(())).map(drop)
}

fn restore_default(instance: &mut Instance, after: &RuleSpec, before: Option<Listed>) -> Result<(), Error> {
    if list::get(&instance.tables, Target::DEFAULT)?.is_none_or(|now| *now.spec != *after) {
        return Ok(());
    }
    match before {
        Some(rule) => set_default(instance, &rule.spec, rule.origin, rule.comment.as_deref()),
        None => instance.delete_rule(Target::DEFAULT),
    }
}

fn remove_ssh_rule(instance: &mut Instance, peer: Target) -> Result<(), Error> {
    match list::get(&instance.tables, peer)? {
        Some(rule) if rule.origin == SSH => instance.delete_rule(peer),
        _ => Ok(()),
    }
}

fn restore_program(instance: &mut Instance, before: Running, after: Option<RequestedSettings>) -> Result<(), Error> {
    let now = RequestedSettings::of(&instance.settings()?);
    let Some(after) = after.filter(|after| *after != now) else { return instance.go_back(before) };
    // Settings that another command has changed since then stay.
    let back = now.back(&after, &before.requested());
    if back == now { Ok(()) } else { instance.put_back(&back) }
}
