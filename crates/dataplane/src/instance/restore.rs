//! Puts debts, bans and the learned rate of an earlier instance into this one, or the settings of an earlier time.

use ratelimit_common::maps::control::FEATURE_BANS;

use crate::{
    Error, Instance,
    debts::{
        Saved,
        restore::{self, CheckBan, Restored},
    },
    instance::edit,
    program::loader::RequestedSettings,
};

impl Instance {
    /// Puts debts, bans and the learned rate into this instance, which is new and attached to no interface. Its rules are in force.
    /// A ban that `check` refuses is left out.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses. Some debts may have been put back then, but no ban.
    pub fn restore(&mut self, saved: &Saved, check: &CheckBan<'_>) -> Result<Restored, Error> {
        if !saved.bans.is_empty() {
            edit::look_at(self, FEATURE_BANS)?;
        }
        let restored = restore::all(&mut self.tables, saved, check);
        let has_bans = restored.as_ref().is_ok_and(|restored| restored.bans != 0);
        if !has_bans && !saved.bans.is_empty() {
            edit::spare(self, FEATURE_BANS);
        }
        restored
    }

    /// Puts settings back. Unlike [`Self::upgrade`], this keeps what an earlier program has learned.
    ///
    /// # Errors
    ///
    /// Those of [`Self::upgrade`].
    pub fn put_back(&mut self, settings: &RequestedSettings) -> Result<(), Error> {
        edit::load(self, settings)
    }
}
