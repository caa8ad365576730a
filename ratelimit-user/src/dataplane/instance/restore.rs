//! Puts debts and bans of an earlier instance into this one.

use crate::dataplane::{
    Error, Instance,
    debts::{
        Saved,
        restore::{self, Restored},
    },
    instance::edit,
    tables::open::Tables,
};
use ratelimit_common::maps::control::FEATURE_BANS;

impl Instance {
    /// Puts debts and bans into this instance, which is new and attached to no interface. Its rules are in force.
    /// If `check` refuses the bans, none of them is kept.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses. Some may have been put back then.
    pub fn restore(&mut self, saved: &Saved, check: &dyn Fn(&Tables) -> Result<(), Error>) -> Result<Restored, Error> {
        if !saved.bans.is_empty() {
            edit::look_at(self, FEATURE_BANS)?;
        }
        let bans = restore::bans(&mut self.tables, &saved.bans)?;
        let refused = check(&self.tables).err();
        let kept = if refused.is_some() { 0 } else { bans.len() };
        if refused.is_some() {
            restore::lift(&self.tables, &bans)?;
        }
        if kept == 0 && !saved.bans.is_empty() {
            edit::spare(self, FEATURE_BANS);
        }
        let debts = restore::debts(&mut self.tables, &saved.debts)?;
        let left_out = saved.debts.len() + saved.bans.len() - debts - kept;
        Ok(Restored { debts, bans: kept, left_out, refused: refused.map(|error| error.to_string()) })
    }
}
