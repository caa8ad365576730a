//! Puts another program in the place of the running one: this build's, or one that looks at more or less of a packet.

use std::{fs, time::Duration};

use ratelimit_common::{
    control::{FEATURE_PARENTS, FEATURE_SERVICES},
    service::Service,
};

use super::{
    Error, Instance,
    error::{Tried as _, at},
    instance::{NEW_PROGRAM, PROGRAM},
    object::{self, Settings, Wanted},
    policies, rules,
    services::Services,
    target::Target,
    terms::{FAMILIES, Terms},
};

impl Instance {
    /// Gives `target` these terms, as [`rules::set`] does, on a program that looks at what they need.
    ///
    /// # Errors
    ///
    /// Those of [`rules::set`] and [`Self::upgrade`]; nothing has changed then.
    pub fn set_rule(&mut self, target: Target, terms: &Terms, life: Option<Duration>, origin: u8) -> Result<(), Error> {
        // What cannot be is refused before anything is switched.
        for family in FAMILIES {
            terms.parents_of(family)?;
        }
        let needs = |needs, feature| if needs { feature } else { 0 };
        let needed =
            needs(target.service != Service::Any, FEATURE_SERVICES) | needs(!terms.parents.is_empty(), FEATURE_PARENTS);
        let running = self.tables.control()?.features;
        if needed & !running != 0 {
            self.switch_to(running | needed)?;
        }
        let outcome = rules::set(&mut self.tables, target, terms, life, origin);
        self.spare();
        outcome
    }

    /// Deletes the rule of `target`, as [`rules::delete`] does. What no rule needs any more, the program no longer looks at.
    ///
    /// # Errors
    ///
    /// Those of [`rules::delete`].
    pub fn delete_rule(&mut self, target: Target) -> Result<(), Error> {
        rules::delete(&mut self.tables, target)?;
        self.spare();
        Ok(())
    }

    /// Puts this build's program in the place of the running one on every interface, without a gap. The maps stay.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] where the running maps were made with other settings. On any error the old program stays.
    pub fn upgrade(&mut self, wanted: &Wanted) -> Result<(), Error> {
        let running = self.running()?;
        let settings = wanted.or(running);
        let different = |setting, running, wanted| Err(Error::Setting { setting, running, wanted });
        if settings.ipv6_prefix != running.ipv6_prefix {
            return different("IPv6 prefix", running.ipv6_prefix, settings.ipv6_prefix);
        }
        if settings.buckets != running.buckets {
            return different("source capacity", running.buckets, settings.buckets);
        }
        self.replace_program(&settings)
    }

    /// The settings of the running program, as far as they outlive its load.
    fn running(&self) -> Result<Settings, Error> {
        let control = self.tables.control()?;
        let settings =
            Settings { ipv6_prefix: control.ipv6_prefix, buckets: self.tables.capacity()?, ..Settings::default() };
        Ok(settings.with_features(control.features))
    }

    /// Changes to a program that looks at no more than the rules need. Where that fails, the running one does too much and nothing
    /// wrong, and the next change tries again.
    fn spare(&mut self) {
        let _ = self.try_spare();
    }

    fn try_spare(&mut self) -> Result<(), Error> {
        let running = self.tables.control()?.features;
        let mut unused = 0;
        if running & FEATURE_SERVICES != 0 && Services::read(&self.tables)?.is_empty() {
            unused |= FEATURE_SERVICES;
        }
        if running & FEATURE_PARENTS != 0 && !policies::any_parents(&self.tables)? {
            unused |= FEATURE_PARENTS;
        }
        if unused == 0 { Ok(()) } else { self.switch_to(running & !unused) }
    }

    fn switch_to(&mut self, features: u32) -> Result<(), Error> {
        let settings = self.running()?.with_features(features);
        self.replace_program(&settings)
    }

    fn replace_program(&mut self, settings: &Settings) -> Result<(), Error> {
        let mut object = object::load(settings, Some(&self.pins))?;
        let program = object::program(&mut object, settings)?;
        let (pinned, fresh) = (self.pins.join(PROGRAM), self.pins.join(NEW_PROGRAM));
        // One that was cut short here may have left its own.
        if fresh.exists() {
            fs::remove_file(&fresh).map_err(at(&fresh))?;
        }
        program.pin(&fresh).tried("cannot pin the program")?;
        let old = self.program()?;
        if let Err(error) = self.attachments.replace(program, old) {
            let _ = fs::remove_file(&fresh);
            return Err(error);
        }
        fs::rename(&fresh, &pinned).map_err(at(&pinned))?;
        let mut control = self.tables.control()?;
        control.features = settings.features();
        self.tables.set_control(&control)
    }
}
