//! What an attach has done to an interface, and how to undo it.

use std::path::PathBuf;

use crate::dataplane::{
    Error,
    attach::{attachment::remove, foreign_program::Removed},
    sys::interface::Interface,
};

/// An attachment that can still be undone.
pub struct Added {
    pub(crate) interface: Interface,
    pub(crate) pin: PathBuf,
    /// The program that gave way, until it is back.
    pub(crate) removed: Option<Removed>,
    /// Whether [`Self::take_back`] has detached it.
    pub(crate) is_detached: bool,
}

impl Added {
    /// Name of the interface when it was attached.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.interface.name
    }

    /// Undoes [`Attachments::attach`](super::attachment::Attachments::attach), unless somebody has detached it meanwhile. It needs no lock, and goes on
    /// with what it could not do before.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`], [`Error::Path`] or [`Error::Netlink`] where the kernel refuses.
    pub fn take_back(&mut self) -> Result<(), Error> {
        if !self.is_detached && !self.pin.exists() {
            return Ok(());
        }
        remove(&self.pin)?;
        self.is_detached = true;
        if let Some(removed) = &self.removed {
            removed.restore(&self.interface)?;
        }
        self.removed = None;
        Ok(())
    }
}
