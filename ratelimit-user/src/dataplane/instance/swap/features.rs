//! Which program runs: this build's, and one that looks at all that rules need and at nothing else.

use std::time::Duration;

use ratelimit_common::{
    identity::service::Service,
    maps::control::{FEATURE_COSTS, FEATURE_FRONT, FEATURE_INTERFACES, FEATURE_PARENTS, FEATURE_SERVICES},
};

use crate::dataplane::{
    Error, Instance,
    program::loader::{Settings, Wanted},
    rules::{capacities, costs, list, policies, services::Services, spec::Terms, target::Target},
};

impl Instance {
    /// Gives `target` these terms, as [`list::set`] does, on a program that looks at what they need.
    ///
    /// # Errors
    ///
    /// Those of [`list::set`], [`Self::check`] and [`Self::upgrade`]; nothing has changed then.
    pub fn set_rule(&mut self, target: Target, terms: &Terms, life: Option<Duration>, origin: u8) -> Result<(), Error> {
        self.check(target, terms)?;
        let replaced = list::get(&self.tables, target)?;
        let needed = needs(target, terms);
        self.look_at(needed)?;
        let outcome = list::set(&mut self.tables, target, terms, life, origin);
        // What the rule before this one has needed, and what a rule that could not be set would have.
        let before = replaced.map_or(0, |replaced| needs(target, &replaced.terms));
        self.spare(if outcome.is_err() { needed } else { before & !needed });
        outcome
    }

    /// Deletes the rule of `target`, as [`list::delete`] does. What no rule needs any more, the program no longer looks at.
    ///
    /// # Errors
    ///
    /// Those of [`list::delete`].
    pub fn delete_rule(&mut self, target: Target) -> Result<(), Error> {
        let deleted = list::get(&self.tables, target)?;
        list::delete(&mut self.tables, target)?;
        self.spare(deleted.map_or(0, |deleted| needs(target, &deleted.terms)));
        Ok(())
    }

    /// Checks what can be checked before anything is changed.
    ///
    /// # Errors
    ///
    /// What [`Terms::check`] says, and [`Error::NoCapacity`] where an elastic limit has nothing to go by.
    pub fn check(&self, target: Target, terms: &Terms) -> Result<(), Error> {
        terms.check(target, self.tables.control()?.ipv6_prefix as u8)?;
        self.check_capacity(terms)
    }

    /// Whether an elastic limit has anything to go by.
    pub(crate) fn check_capacity(&self, terms: &Terms) -> Result<(), Error> {
        if terms.policy.elastic != 0 && !capacities::is_any(&self.tables)? {
            return Err(Error::NoCapacity);
        }
        Ok(())
    }

    /// Puts this build's program in the place of the running one on every interface, without a gap. What the maps know stays.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] where the running maps were made with other settings, [`Error::NoCells`] where unknown sources could not be told. On any error the old program stays.
    pub fn upgrade(&mut self, wanted: &Wanted) -> Result<(), Error> {
        let running = self.settings()?;
        let settings = wanted.or(running);
        let different = |running, wanted| Err(Error::Setting { running, wanted });
        if settings.ipv6_prefix != running.ipv6_prefix {
            let [running, wanted] = [running, settings].map(|settings| settings.ipv6_prefix.to_string());
            return different(format!("IPv6 prefix {running}"), wanted);
        }
        if (settings.cells == 0) != (running.cells == 0) {
            let [with, without] = ["cells", "none (--front off)"].map(str::to_owned);
            return if settings.cells == 0 { different(with, without) } else { different("no cells".to_owned(), with) };
        }
        if settings.unknown != 0 && settings.cells == 0 {
            return Err(Error::NoCells);
        }
        self.replace_program(&settings)
    }

    /// The settings of the running program, as far as they outlive its load.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn settings(&self) -> Result<Settings, Error> {
        let control = self.tables.control()?;
        let cells = if control.features & FEATURE_FRONT == 0 { 0 } else { self.tables.front.len() };
        Ok(Settings::running(&control, self.tables.capacity()?, cells))
    }

    /// Changes to a program that does not look at these features, as far as no rule needs them any more. Where that fails, the running
    /// one does too much and nothing wrong.
    pub(crate) fn spare(&mut self, features: u32) {
        let _ = self.try_spare(features);
    }

    fn try_spare(&mut self, features: u32) -> Result<(), Error> {
        let running = self.tables.control()?.features;
        if features & running == 0 {
            return Ok(());
        }
        let unused = features & running & !self.needed()?;
        if unused == 0 { Ok(()) } else { self.switch_to(running & !unused) }
    }

    /// The features that rules, costs and interfaces need.
    pub(crate) fn needed(&self) -> Result<u32, Error> {
        let services = if Services::read(&self.tables)?.is_empty() { 0 } else { FEATURE_SERVICES };
        let costs = if costs::list(&self.tables)?.is_empty() { 0 } else { FEATURE_COSTS };
        let interfaces = if self.attachments.indices()?.len() > 1 { FEATURE_INTERFACES } else { 0 };
        Ok(services | costs | interfaces | policies::features(&self.tables)?)
    }

    /// Changes to a program that looks at these features too.
    pub(crate) fn look_at(&mut self, needed: u32) -> Result<(), Error> {
        let running = self.tables.control()?.features;
        if needed & !running == 0 { Ok(()) } else { self.switch_to(running | needed) }
    }

    fn switch_to(&mut self, features: u32) -> Result<(), Error> {
        let settings = self.settings()?.with_features(features);
        self.replace_program(&settings)
    }
}

/// The features that a rule needs.
pub(crate) fn needs(target: Target, terms: &Terms) -> u32 {
    let services = if target.service == Service::Any { 0 } else { FEATURE_SERVICES };
    let parents = if terms.parents.is_empty() { 0 } else { FEATURE_PARENTS };
    services | parents | policies::features_of(&terms.policy)
}
