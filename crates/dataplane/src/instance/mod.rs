//! One instance: all that is pinned in one folder, under a lock. Operations on it are methods here, single maps in `tables`.

pub mod daemon_lock;
pub mod edit;
mod interfaces;
mod lists;
pub mod lock;
pub mod open;
pub mod read_only;
pub mod removal;
mod restore;
pub mod segments;
mod service_costs;
mod shadow;
pub mod swap;

use std::{
    ops::{Deref, DerefMut},
    path::Path,
    time::Duration,
};

use ratelimit_common::identity::service::Service;

use self::{
    daemon_lock::DaemonLock,
    lock::Lock,
    open::Versions,
    swap::{
        pinned::Pinned,
        replace::{self, Running},
    },
};
use crate::{
    Error,
    attach::attachment::Attachment,
    program::loader::RequestedSettings,
    rules::{
        batch::{Change, Changed},
        costs::{Cost, RequestedCost},
        spec::RuleSpec,
        target::Target,
    },
    sys::interface::Interface,
    tables::open::Tables,
};

/// The lock of an instance, with access to its maps and links. Dropping it releases the lock and changes nothing else.
pub struct Instance {
    pinned: Pinned,
    _lock: Lock,
}

impl Deref for Instance {
    type Target = Pinned;

    fn deref(&self) -> &Pinned {
        &self.pinned
    }
}

impl DerefMut for Instance {
    fn deref_mut(&mut self) -> &mut Pinned {
        &mut self.pinned
    }
}

impl Instance {
    /// Opens the instance in `pins`. Waits for other commands as long as they work.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`] if there is none, [`Error::OtherAbi`] if another build created it, [`Error::Locked`] if
    /// another command does nothing. [`Error::Pins`] if another user could change the pins.
    pub fn open(pins: &Path) -> Result<Self, Error> {
        let (pinned, lock) = open::open(pins, Versions::Own)?;
        Ok(Self { pinned, _lock: lock })
    }

    /// Opens the instance in `pins` for a daemon that has started.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`], and [`Error::NotInForce`] if another build has put its program in force.
    pub fn open_in_force(pins: &Path) -> Result<Self, Error> {
        let (pinned, lock) = open::open(pins, Versions::InForce)?;
        Ok(Self { pinned, _lock: lock })
    }

    /// Brings what another build has created in `pins` to the layouts of this one, and puts this build's program in
    /// force. Returns whether something changed.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTypes`] if this process must not read the types of the other build's maps.
    pub fn take_over(pins: &Path) -> Result<bool, Error> {
        open::take_over(pins)
    }

    /// Opens the instance in `pins`, or creates one without rules. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// [`Error::Pins`] if nothing can be pinned there. After any failure, what was created is removed.
    /// [`Error::OtherAbi`] or [`Error::NotInForce`] if its version is none of these.
    pub fn open_or_create(
        pins: &Path,
        requested: &RequestedSettings,
        versions: Versions,
    ) -> Result<(Self, bool), Error> {
        let (pinned, lock, is_new) = open::open_or_create(pins, requested, versions)?;
        Ok((Self { pinned, _lock: lock }, is_new))
    }

    /// Detaches from every interface, and removes the instance with all its rules.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] or [`Error::Path`] if a link or pin cannot be removed.
    pub fn remove(self) -> Result<(), Error> {
        self.attachments.detach_all()?;
        removal::remove_pins(&self.pins)
    }

    /// Returns the folder of its pins.
    #[must_use]
    pub fn pins(&self) -> &Path {
        &self.pins
    }

    /// Releases the lock, and returns the maps for reading.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if one cannot be opened.
    pub fn into_tables(self) -> Result<Tables, Error> {
        Tables::unlocked(&self.pins)
    }

    /// Makes sure that this process has the lock of the instance's daemon.
    ///
    /// # Errors
    ///
    /// [`Error::SecondDaemon`] if another process has it.
    pub fn lock_for_daemon(&self, lock: &mut Option<DaemonLock>) -> Result<(), Error> {
        DaemonLock::ensure(&self.pins, lock)
    }

    /// Gives `target` a rule, which replaces the one that it has.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`].
    pub fn set_rule(
        &mut self,
        target: Target,
        spec: &RuleSpec,
        life: Option<Duration>,
        origin: u8,
    ) -> Result<(), Error> {
        self.change(&Change::set(target, spec, life, origin), &mut |_| {}, &|_| Ok(())).map(drop)
    }

    /// Deletes the rule of `target`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`].
    pub fn delete_rule(&mut self, target: Target) -> Result<(), Error> {
        self.change(&Change::delete(target), &mut |_| {}, &|_| Ok(())).map(drop)
    }

    /// Lifts the ban of exactly the source that `target` is. Its rule stays.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`].
    pub fn lift_ban(&mut self, target: Target) -> Result<(), Error> {
        self.change(&Change::lift(target), &mut |_| {}, &|_| Ok(())).map(drop)
    }

    /// Makes a change of rules, and loads a program with the features that they need.
    ///
    /// It reports to `progress` how many rules are written or deleted. When all are, `check` decides whether they stay.
    ///
    /// # Errors
    ///
    /// Those of [`Self::check`], [`Self::upgrade`], [`apply`](crate::rules::batch::apply) and `check`.
    /// Nothing has changed then.
    pub fn change(
        &mut self,
        change: &Change,
        progress: &mut dyn FnMut(usize),
        check: &dyn Fn(&Tables) -> Result<(), Error>,
    ) -> Result<Changed, Error> {
        edit::change(&mut self.pinned, change, progress, check)
    }

    /// Checks what can be checked before anything changes.
    ///
    /// # Errors
    ///
    /// Those of [`RuleSpec::check`], and [`Error::NoCapacity`] if an elastic limit has no capacity to use.
    pub fn check(&self, target: Target, spec: &RuleSpec) -> Result<(), Error> {
        edit::check(&self.tables, target, spec)
    }

    /// Replaces the running program by this build's on every interface, without a gap. The contents of the maps stay.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if the maps need another one, or [`Error::Unknown`]. The old program stays then.
    pub fn upgrade(&mut self, requested: &RequestedSettings) -> Result<(), Error> {
        edit::upgrade(&mut self.pinned, requested)
    }

    /// Returns the running programs, so that [`Self::go_back`] can restore it.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn running(&self) -> Result<Running, Error> {
        replace::running(&self.pinned)
    }

    /// Restores a program that ran before. If it lacks a feature that rules need by now, this build's program takes
    /// over its settings.
    ///
    /// # Errors
    ///
    /// Those of [`Self::upgrade`].
    pub fn go_back(&mut self, to: Running) -> Result<(), Error> {
        edit::go_back(&mut self.pinned, to)
    }

    /// Sets a cost.
    ///
    /// # Errors
    ///
    /// [`Error::Services`] if the service needs a class and all are taken.
    pub fn set_cost(&mut self, cost: Cost) -> Result<(), Error> {
        service_costs::set(&mut self.pinned, cost)
    }

    /// Removes the cost of a service.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn delete_cost(&mut self, service: Service) -> Result<(), Error> {
        service_costs::delete(&mut self.pinned, service)
    }

    /// Makes these the costs of an origin. Costs of other origins stay, and win.
    ///
    /// # Errors
    ///
    /// Those of [`Self::set_cost`]. Some may have changed then.
    pub fn set_costs_of(&mut self, origin: u8, costs: &[RequestedCost]) -> Result<(), Error> {
        service_costs::set_all_of(&mut self.pinned, origin, costs)
    }

    /// Restores the costs that [`list`](crate::rules::costs::list) returned before.
    ///
    /// # Errors
    ///
    /// Those of [`Self::set_cost`].
    pub fn restore_costs(&mut self, costs: &[Cost]) -> Result<(), Error> {
        service_costs::restore(&mut self.pinned, costs)
    }

    /// Prepares for these further interfaces. The program counts by interface if several will be attached, and not if
    /// one will be. There is a second program if one of them has no Ethernet headers, and there are others `with_shadow`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::upgrade`]. Counting continues as before then.
    pub fn expect_interfaces(&mut self, coming: &[Interface], with_shadow: bool) -> Result<(), Error> {
        interfaces::expect(&mut self.pinned, coming, with_shadow)
    }

    /// Puts attached interfaces in shadow, or ends that, without a gap on others. Returns the names of those that changed.
    ///
    /// # Errors
    ///
    /// Those of [`Self::upgrade`]. Nothing has changed then.
    pub fn set_shadow(&mut self, wanted: &dyn Fn(&Attachment) -> bool, is_on: bool) -> Result<Vec<String>, Error> {
        shadow::set(&mut self.pinned, wanted, is_on)
    }

    /// Makes the program count as the attached interfaces need it. A failure costs only some work for each packet.
    pub fn forget_interfaces(&mut self) {
        let _ = self.expect_interfaces(&[], false);
    }

    /// Updates the ledger of interface counters before another program is restored.
    pub fn settle_interfaces(&mut self) {
        interfaces::settle_all(&mut self.pinned);
    }
}
